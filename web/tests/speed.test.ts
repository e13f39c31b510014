/** Times of a page with many rows, printed. A number that a busy machine decides is no test. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, type Way } from './support/browser.ts';
import { eventually } from './support/cases.ts';
import { modelParts } from './support/model.ts';
import { pageWithParts, type PageParts } from './support/page_file.ts';

const ROWS = 100_000;
let browser: Browser;
let parts: PageParts;
before(async () => {
  parts = modelParts({ rows: ROWS, chunkRows: 16_384 });
  browser = await Browser.start();
});
after(() => browser.stop());

for (const way of ['file', 'served'] as const satisfies Way[]) {
  test(`${ROWS} rows (${way})`, async () => {
    if (way === 'file') console.log(`file of ${ROWS} rows: ${(pageWithParts(parts).length / 1e6).toFixed(1)} MB`);
    const address = await browser.address(parts, way);
    const { page, complaints } = await browser.openAddress(address);
    await page.locator('[data-view="table"] .rows .row .cell').first().waitFor();
    const opened = await eventually(
      () => page.evaluate(() => performance.getEntriesByName('page-shown')[0]?.startTime ?? 0),
      (time) => time > 0,
      'shown',
    );
    const rows = Number(await page.locator('[data-view="table"]').getAttribute('aria-rowcount')) - 1;
    assert.ok(rows >= ROWS, `${rows} rows`);

    const table = page.locator('[data-view="table"]');
    await table.scrollIntoViewIfNeeded();
    const frames = await table.evaluate(async (one) => {
      const times: number[] = [];
      let last = performance.now();
      for (let frame = 0; frame < 120; frame += 1) {
        one.scrollTop += 700;
        await new Promise(requestAnimationFrame);
        times.push(performance.now() - last);
        last = performance.now();
      }
      return times.sort((a, b) => a - b);
    });
    const begin = Date.now();
    await page.locator('[data-field="row-filter"]').fill('gelu.77.');
    await eventually(
      () => page.locator('[data-field="row-count"]').innerText(),
      (text) => / rows of /.test(text),
      'filtered',
    );
    const filtered = Date.now() - begin;
    await page.getByRole('button', { name: 'Clear filters' }).click();
    const sorting = Date.now();
    await table.getByRole('columnheader', { name: 'rel_l2' }).getByRole('button').click();
    await eventually(
      () => page.locator('[data-field="row-count"]').innerText(),
      (text) => /^[\d,]+ rows$/.test(text),
      'sorted',
    );
    const sorted = Date.now() - sorting;
    console.log(
      `${way}: shown after ${opened.toFixed(0)} ms; a frame of scrolling takes ${frames[60]?.toFixed(1)} ms ` +
        `(median), ${frames[113]?.toFixed(1)} ms (95 %); filter ${filtered} ms; sort ${sorted} ms`,
    );
    assert.deepEqual(complaints, []);
  });
}
