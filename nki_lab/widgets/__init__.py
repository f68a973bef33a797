"""What every view needs to be shown: the live widget, the saved page, colours, and what pictures are drawn on."""
