/** Tests of a page in a browser: each runs on a file and on a served page, and fails on any error or outside request. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { Browser, type Way } from './browser.ts';
import { modelParts, type ModelOptions } from './model.ts';
import type { PageParts } from './page_file.ts';

export interface Case {
  readonly page: Page;
  readonly way: Way;
  readonly parts: PageParts;
}

export type Subject = (name: string, body: (open: Case) => Promise<void>) => void;

/** The tests of one file share a browser and the data of the page. */
export function pageTests(options: ModelOptions | (() => PageParts), context: BrowserContextOptions = {}): Subject {
  let browser: Browser;
  let parts: PageParts;
  before(async () => {
    parts = typeof options === 'function' ? options() : modelParts(options);
    browser = await Browser.start(context);
  });
  after(() => browser.stop());
  return (name, body) => {
    for (const way of ['file', 'served'] as const) {
      test(`${name} (${way})`, async () => {
        const { page, complaints } = await browser.open(parts, way);
        await body({ page, way, parts });
        assert.deepEqual(complaints, []);
        await page.close();
      });
    }
  };
}

/** The name of the selected call, as the page shows it. */
export async function selectedCall(page: Page): Promise<string> {
  return page.locator('[data-field="call-name"]').innerText();
}

/** Waits until a condition holds, for what follows an event. */
export async function eventually<T>(read: () => Promise<T>, isDone: (value: T) => boolean, what: string): Promise<T> {
  const end = Date.now() + 5000;
  for (;;) {
    const value = await read();
    if (isDone(value)) return value;
    if (Date.now() > end) assert.fail(`${what}: still ${JSON.stringify(value)}`);
    await new Promise((done) => setTimeout(done, 30));
  }
}

export const shows = (page: Page, name: string) =>
  eventually(
    () => selectedCall(page),
    (one) => one === name,
    `selected ${name}`,
  );
