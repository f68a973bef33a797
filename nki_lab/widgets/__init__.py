"""What every view needs to be shown: the live widget, the saved page, colours, and what pictures are drawn on."""

#: The type of a live view: its id, which leads to it as long as its kernel lives.
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"
#: The type that our extension of JupyterLab shows: the live view or, once its kernel has ended, the other forms.
LIVE_TYPE = "application/vnd.nki-lab.view+json"
