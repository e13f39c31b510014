/** Debian's Chromium, started anew, and pages in it that watch for errors and requests. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { pageWithParts, type PageParts } from './page_file.ts';
import { serve, type Served } from './server.ts';

const EXECUTABLE = process.env['CHROMIUM'] ?? '/usr/bin/chromium';
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export type Way = 'file' | 'served';

/** A page of a browser, and what it did that it should not. */
export interface OpenPage {
  readonly page: Page;
  readonly address: string;
  readonly complaints: readonly string[];
}

export class Browser {
  readonly #folder: string;
  readonly #context: BrowserContext;
  readonly #servers: Served[] = [];

  private constructor(folder: string, context: BrowserContext) {
    this.#folder = folder;
    this.#context = context;
  }

  static async start(options: BrowserContextOptions = {}): Promise<Browser> {
    if (!existsSync(EXECUTABLE)) {
      throw new Error(`${EXECUTABLE} is not there: apt-get install chromium, or name the program in CHROMIUM`);
    }
    const folder = mkdtempSync(join(tmpdir(), 'ulpscope-page-'));
    const context = await chromium.launchPersistentContext(join(folder, 'profile'), {
      executablePath: EXECUTABLE,
      args: FLAGS,
      viewport: { width: 1360, height: 900 },
      acceptDownloads: true,
      ...options,
    });
    return new Browser(folder, context);
  }

  /** Opens a page of these parts as a file or from a server, and waits until it is shown. */
  async open(parts: PageParts, way: Way = 'file', fragment = ''): Promise<OpenPage> {
    return this.openAddress(await this.address(parts, way), fragment);
  }

  async openFile(html: string, fragment = ''): Promise<OpenPage> {
    return this.openAddress(this.#write(html), fragment);
  }

  /** Opens a page that cannot be shown. */
  async openDamaged(html: string): Promise<{ page: Page }> {
    const page = await this.#context.newPage();
    await page.goto(this.#write(html));
    return { page };
  }

  async openAddress(address: string, fragment = ''): Promise<OpenPage> {
    const page = await this.#context.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
    page.on('request', (request) => {
      if (!isLocal(request.url())) complaints.push(`request: ${request.url()}`);
    });
    page.on('dialog', (dialog) => {
      complaints.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    await page.goto(address + fragment);
    await page.locator('main').waitFor();
    return { page, address, complaints };
  }

  async address(parts: PageParts, way: Way): Promise<string> {
    if (way === 'file') return this.#write(pageWithParts(parts));
    const server = await serve(parts);
    this.#servers.push(server);
    return server.address;
  }

  #write(html: string): string {
    const path = join(mkdtempSync(join(this.#folder, 'page-')), 'report.html');
    writeFileSync(path, html);
    return pathToFileURL(path).href;
  }

  async stop(): Promise<void> {
    await this.#context.close();
    await Promise.all(this.#servers.map((server) => server.stop()));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function isLocal(address: string): boolean {
  const { protocol, hostname } = new URL(address);
  return ['file:', 'data:', 'blob:'].includes(protocol) || hostname === '127.0.0.1';
}
