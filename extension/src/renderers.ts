/**
 * Which files of the file browser open in the views of a run, and how?
 *
 * The server makes the page (nki_lab/server). Where it cannot, since nki_lab is not installed there, nothing is offered.
 */

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IThemeManager, ToolbarButton, WidgetTracker } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import {
  ABCWidgetFactory,
  DocumentRegistry,
  DocumentWidget,
  IDocumentWidget,
  TextModelFactory
} from '@jupyterlab/docregistry';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { Contents, ServiceManager } from '@jupyterlab/services';
import { LabIcon, refreshIcon } from '@jupyterlab/ui-components';
import { asking, PageView, Theme } from './pages.js';

export const FACTORY = 'NKI views';
const MODEL = 'nki-lab-file';
const OPEN_FOLDER = 'nki-lab:open-profile-folder';

/** Lanes with events. */
const icon = new LabIcon({
  name: 'nki-lab:views',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161"><path d="M1 3h7v2H1zM5 7h5v2H5zM8 11h7v2H8z"/></g></svg>`
});

const text = { icon, contentType: 'file', fileFormat: 'text', mimeTypes: ['application/json'] } as const;
const binary = {
  icon,
  contentType: 'file',
  fileFormat: 'base64',
  mimeTypes: ['application/octet-stream']
} as const;

/** The kinds of files that open in views by themselves. */
export const FILE_TYPES: readonly Partial<DocumentRegistry.IFileType>[] = [
  { ...text, name: 'nki-kernel', displayName: 'Compiled NKI kernel', extensions: ['.nkic'] },
  {
    ...text,
    name: 'nki-profile',
    displayName: 'NKI profile',
    extensions: ['.profile.json', '.nki.json']
  },
  {
    ...binary,
    name: 'nki-neff',
    displayName: 'Program of the Neuron compiler',
    extensions: ['.neff']
  },
  { ...binary, name: 'nki-capture', displayName: 'Neuron capture', extensions: ['.ntff'] },
  { ...binary, name: 'nki-trace', displayName: 'NKI trace', extensions: ['.pftrace'] },
  { ...binary, name: 'nki-table', displayName: 'Table of a profile', extensions: ['.parquet'] }
];

/** Other kinds that may hold a profile: of these, views are one choice of "Open With". */
const OFFERED = ['json', 'csv'];

/** Folders that hold a profile end so, and the files of which one leads to its views. */
const FOLDER = /\.(parquet|csv)$/i;
const MEMBERS = ['profile.json', 'Instruction.parquet'];

/** A file whose content stays on the server, however large it is. */
class FileModelFactory extends TextModelFactory {
  get name(): string {
    return MODEL;
  }

  get contentType(): Contents.ContentType {
    return 'file';
  }

  get fileFormat(): Contents.FileFormat {
    return null;
  }
}

class ViewsFactory extends ABCWidgetFactory<IDocumentWidget<PageView>> {
  constructor(
    options: DocumentRegistry.IWidgetFactoryOptions<IDocumentWidget<PageView>>,
    private _services: ServiceManager.IManager,
    private _theme: () => Theme
  ) {
    super(options);
  }

  protected createNewWidget(context: DocumentRegistry.Context): IDocumentWidget<PageView> {
    const { contents, serverSettings } = this._services;
    const view = new PageView({
      ...asking(serverSettings),
      get path() {
        return contents.localPath(context.path);
      },
      look: () => contents.get(context.path, { content: false }),
      theme: this._theme
    });
    context.fileChanged.connect(view.look, view);
    view.title.icon = icon;
    const widget = new DocumentWidget({ content: view, context });
    widget.toolbar.addItem(
      'reload',
      new ToolbarButton({
        icon: refreshIcon,
        label: 'Reload',
        tooltip: 'Read the file again',
        onClick: () => void view.load()
      })
    );
    return widget;
  }
}

/** Returns the theme of the page, also where there is no manager of themes. */
function themeNow(themes: IThemeManager | null): Theme {
  const light =
    themes?.theme != null
      ? themes.isLight(themes.theme)
      : document.body.dataset.jpThemeLight !== 'false';
  return light ? 'light' : 'dark';
}

/** Tells whether the server can make pages; it says so in the configuration of JupyterLab's page. */
export function serverMakesPages(): boolean {
  return PageConfig.getOption('nkiLabPages') === 'true';
}

/** Opens the views of a folder with a profile, by the first of its files that is there. */
async function openFolder(app: JupyterFrontEnd, path: string): Promise<void> {
  const { content } = await app.serviceManager.contents.get(path);
  const names = (content as Contents.IModel[]).map(({ name }) => name);
  const member = MEMBERS.find(name => names.includes(name)) ?? MEMBERS[0];
  await app.commands.execute('docmanager:open', { path: `${path}/${member}`, factory: FACTORY });
}

export const renderers: JupyterFrontEndPlugin<void> = {
  id: 'nki-lab:renderers',
  description: 'Opens profiles and compiled kernels from the file browser in views.',
  autoStart: true,
  optional: [IThemeManager, ILayoutRestorer, IFileBrowserFactory],
  activate: (
    app: JupyterFrontEnd,
    themes: IThemeManager | null,
    restorer: ILayoutRestorer | null,
    browsers: IFileBrowserFactory | null
  ): void => {
    if (!serverMakesPages()) {
      return;
    }
    const { docRegistry } = app;
    const names = FILE_TYPES.map(({ name }) => name!);
    FILE_TYPES.forEach(type => docRegistry.addFileType(type));
    docRegistry.addModelFactory(new FileModelFactory());
    const factory = new ViewsFactory(
      {
        name: FACTORY,
        modelName: MODEL,
        fileTypes: [...names, ...OFFERED],
        defaultFor: names,
        readOnly: true
      },
      app.serviceManager,
      () => themeNow(themes)
    );
    docRegistry.addWidgetFactory(factory);

    const tracker = new WidgetTracker<IDocumentWidget<PageView>>({ namespace: 'nki-lab-views' });
    factory.widgetCreated.connect((_, widget) => {
      void tracker.add(widget);
      widget.context.pathChanged.connect(() => void tracker.save(widget));
    });
    themes?.themeChanged.connect(() => tracker.forEach(({ content }) => content.themeChanged()));
    if (restorer) {
      void restorer.restore(tracker, {
        command: 'docmanager:open',
        args: ({ context }) => ({ path: context.path, factory: FACTORY }),
        name: ({ context }) => context.path
      });
    }
    if (browsers) {
      const chosen = () => [...(browsers.tracker.currentWidget?.selectedItems() ?? [])];
      app.commands.addCommand(OPEN_FOLDER, {
        label: 'Open NKI Views',
        caption: 'Show the profile that this folder holds',
        isVisible: () => {
          const [item, ...others] = chosen();
          return others.length === 0 && item?.type === 'directory' && FOLDER.test(item.name);
        },
        execute: () => openFolder(app, chosen()[0].path)
      });
      app.contextMenu.addItem({
        command: OPEN_FOLDER,
        selector: '.jp-DirListing-item[data-isdir="true"]',
        rank: 1.5
      });
    }
  }
};
