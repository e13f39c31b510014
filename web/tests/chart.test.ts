import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { eventually, pageTests, selectedCall, shows } from './support/cases.ts';

const test = pageTests({ layers: 6 });

/** Where a call is in the chart, in pixels, when the whole run is shown. */
async function place(page: Page, call: number): Promise<[number, number]> {
  const box = await page.locator('[data-chart="error"] .u-over').boundingBox();
  const count = Number(
    (await page.locator('[data-chart="error"]').getAttribute('aria-label'))?.match(/of (\d+) calls/)?.[1],
  );
  assert.ok(box);
  const margin = Math.max(0.7, (count - 1) * 0.008);
  return [box.x + ((call + margin) / (count - 1 + 2 * margin)) * box.width, box.y + box.height / 2];
}

test('the chart shows what is under the pointer, and a click selects it', async ({ page }) => {
  await page.locator('[data-chart="error"]').scrollIntoViewIfNeeded();
  const [x, y] = await place(page, 3);
  await page.mouse.move(x, y);
  const tip = page.locator('[data-chart="error"] .tip');
  await tip.waitFor();
  assert.match(await tip.innerText(), /Functional\.scaled_dot_product_attention\.0\.forward[^]*error .*allowed/);
  await page.mouse.down();
  await page.mouse.up();
  await shows(page, 'Functional.scaled_dot_product_attention.0.forward');
});

test('dragging zooms, and the whole run comes back', async ({ page }) => {
  const all = page.getByRole('button', { name: 'Whole run' });
  assert.ok(await all.isDisabled());
  await page.locator('[data-chart="error"]').scrollIntoViewIfNeeded();
  const [from, y] = await place(page, 10);
  const [to] = await place(page, 20);
  await page.mouse.move(from, y);
  await page.mouse.down();
  await page.mouse.move(to, y, { steps: 5 });
  await page.mouse.up();
  await eventually(
    () => all.isDisabled(),
    (is) => !is,
    'zoomed',
  );
  assert.equal(await selectedCall(page), 'Functional.gelu.2.forward', 'a drag selects nothing');
  await all.click();
  await eventually(
    () => all.isDisabled(),
    (is) => is,
    'the whole run',
  );
});

test('buttons and the wheel with Ctrl zoom', async ({ page }) => {
  const out = page.locator('figure').getByRole('button', { name: 'Zoom out' });
  await page.locator('figure').getByRole('button', { name: 'Zoom in' }).click();
  await eventually(
    () => out.isDisabled(),
    (is) => !is,
    'zoomed by the button',
  );
  await out.click();
  await eventually(
    () => out.isDisabled(),
    (is) => is,
    'zoomed out',
  );
  const [x, y] = await place(page, 10);
  await page.mouse.move(x, y);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -120);
  await page.keyboard.up('Control');
  await eventually(
    () => out.isDisabled(),
    (is) => !is,
    'zoomed by the wheel',
  );
});

test('keys move through the calls of the chart', async ({ page }) => {
  await page.locator('[data-chart="error"]').focus();
  await page.keyboard.press('ArrowRight');
  await shows(page, 'Functional.linear.8.forward');
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  await shows(page, 'Functional.linear.7.forward');
  await page.keyboard.press('n');
  await shows(page, 'Functional.gelu.2.forward');
  await page.keyboard.press('Home');
  await shows(page, 'Functional.embedding.0.forward');
  await page.keyboard.press('+');
  await eventually(
    () => page.getByRole('button', { name: 'Whole run' }).isDisabled(),
    (is) => !is,
    'zoomed',
  );
  await page.keyboard.press('0');
  await eventually(
    () => page.getByRole('button', { name: 'Whole run' }).isDisabled(),
    (is) => is,
    'the whole run',
  );
});

test('a pass can be hidden, and its calls are then skipped', async ({ page }) => {
  await page.getByLabel('forward', { exact: true }).uncheck();
  await page.locator('[data-chart="error"]').focus();
  await page.keyboard.press('ArrowRight');
  await eventually(
    () => selectedCall(page),
    (name) => name.endsWith('.backward'),
    'a backward call',
  );
});
