/**
 * Pictures of the page: the one of the README, and some for people to look at in target/page-pictures. Each is also
 * checked for what can be measured: nothing is wider than the window, and dark is dark.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { Browser } from './support/browser.ts';
import { modelParts } from './support/model.ts';

const FOLDER = fileURLToPath(new URL('../../target/page-pictures/', import.meta.url));
const README_PICTURE = fileURLToPath(new URL('../../docs/images/report.png', import.meta.url));
const DEMO_PAGE = process.env['DEMO_PAGE'] ?? fileURLToPath(new URL('../../target/demo/report.html', import.meta.url));
mkdirSync(FOLDER, { recursive: true });

async function withPage(options: BrowserContextOptions, look: (page: Page) => Promise<void>): Promise<void> {
  const browser = await Browser.start(options);
  try {
    const { page, complaints } = await browser.open(modelParts({ layers: 8, ranks: 3, steps: 2 }));
    await page.locator('[data-field="entry-panel"]').waitFor();
    await look(page);
    assert.deepEqual(complaints, []);
  } finally {
    await browser.stop();
  }
}

const picture = (page: Page, name: string) => page.screenshot({ path: `${FOLDER}${name}.png`, fullPage: true });
const isWithinWindow = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
const background = (page: Page) => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);

describe('pictures', () => {
  for (const width of [360, 720, 1360, 2200]) {
    test(`a window of ${width} pixels`, () =>
      withPage({ viewport: { width, height: 900 } }, async (page) => {
        await picture(page, `width-${width}`);
        assert.ok(await isWithinWindow(page));
        await page.keyboard.press('/');
        await page.keyboard.type('linear');
        const [list, field] = await Promise.all([
          page.locator('.search .list').boundingBox(),
          page.locator('[data-field="search"]').boundingBox(),
        ]);
        assert.ok(list && field);
        assert.ok(list.x >= 0 && list.x + list.width <= width, `${JSON.stringify(list)} in ${width} pixels`);
        const below = list.y - (field.y + field.height);
        assert.ok(below >= 0 && below < 60, `the list is ${below} pixels below its field`);
      }));
  }

  test('dark', () =>
    withPage({ colorScheme: 'dark' }, async (page) => {
      await picture(page, 'dark');
      assert.equal(await background(page), 'rgb(20, 21, 19)');
    }));

  test('printed, from a dark screen', () =>
    withPage({ colorScheme: 'dark', viewport: { width: 760, height: 1000 } }, async (page) => {
      await page.emulateMedia({ media: 'print' });
      await picture(page, 'printed');
      assert.equal(await background(page), 'rgb(255, 255, 255)');
      assert.equal(await page.locator('[data-field="search"]').isVisible(), false);
      // Every column is on the paper.
      const cut = await page.locator('[data-view="table"]').evaluate((grid) => {
        const edge = grid.getBoundingClientRect().right;
        const heads = [...grid.querySelectorAll('[role="columnheader"]')];
        return heads
          .filter((one) => one.getBoundingClientRect().right > edge + 1)
          .map((one) => one.textContent?.trim());
      });
      assert.deepEqual(cut, []);
      const paper = await page.pdf({ path: `${FOLDER}printed.pdf`, format: 'A4' });
      assert.ok(paper.length > 10_000);
    }));

  test('marks can be told apart without colours', () =>
    withPage({}, async (page) => {
      const shapes = await page
        .locator('.legend svg')
        .evaluateAll((all) => all.map((one) => one.innerHTML.replaceAll(/<!--.*?-->/g, '')));
      assert.ok(shapes.length >= 5);
      assert.equal(new Set(shapes).size, shapes.length);
    }));
});

test(
  'the picture of the README',
  { skip: !existsSync(DEMO_PAGE) && `make demo first writes ${DEMO_PAGE}` },
  async () => {
    const browser = await Browser.start({ viewport: { width: 1280, height: 1000 } });
    try {
      const { page, complaints } = await browser.openFile(readFileSync(DEMO_PAGE, 'utf8'));
      await page.locator('[data-field="entry-panel"]').waitFor();
      assert.match(await page.locator('h1').innerText(), /Autograd\.FusedGelu\.2 returns a different result/);
      // Up to the end of the chart.
      const chart = await page.locator('figure').first().boundingBox();
      assert.ok(chart);
      const height = Math.ceil(chart.y + chart.height + 12);
      await page.screenshot({ path: README_PICTURE, fullPage: true, clip: { x: 0, y: 0, width: 1280, height } });
      assert.ok(statSync(README_PICTURE).size < 300_000, `${statSync(README_PICTURE).size} bytes`);
      assert.deepEqual(complaints, []);
    } finally {
      await browser.stop();
    }
  },
);
