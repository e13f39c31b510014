import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { partName, type Trend } from '../src/payload.ts';
import { eventually, pageTests, selectedCall, shows } from './support/cases.ts';
import { modelParts } from './support/model.ts';
import { jsonPart } from './support/page_file.ts';

const test = pageTests({ layers: 4, ranks: 4, steps: 3 });

test('a step and a rank are selected, and the call of that name stays selected', async ({ page }) => {
  const heading = page.locator('#glance-heading');
  assert.match(await heading.innerText(), /step0 rank0/);
  await page.locator('[data-field="rank"]').selectOption('rank3');
  await eventually(
    () => heading.innerText(),
    (text) => text.includes('step0 rank3'),
    'rank 3',
  );
  await page.locator('[data-field="step"]').selectOption('2');
  await eventually(
    () => heading.innerText(),
    (text) => text.includes('step2 rank3'),
    'step 2',
  );
  assert.equal(await selectedCall(page), 'Functional.gelu.2.forward');
  assert.match(await page.locator('[data-field="call-class"]').innerText(), /noise|equal/, 'this rank has no fault');
});

test('a cell of the heat map selects its rank and call', async ({ page }) => {
  const canvas = page.locator('[data-chart="heat"] canvas');
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  assert.ok(box);
  const [x, y] = [box.width * 0.5, (box.height / 12) * 5.5];
  await canvas.hover({ position: { x, y } });
  const text = page.locator('[data-field="heat-text"]');
  await eventually(
    () => text.innerText(),
    (one) => one.startsWith('step1 rank1: '),
    'the text of the cell',
  );
  const name = (await text.innerText()).split(': ')[1] ?? '';
  await canvas.click({ position: { x, y } });
  await eventually(
    () => page.locator('#glance-heading').innerText(),
    (one) => one.includes('step1 rank1'),
    'rank',
  );
  await shows(page, name);
});

test('what is grave is taller in the heat map, so that it is seen without colour', async ({ page }) => {
  const canvas = page.locator('[data-chart="heat"] canvas');
  await canvas.waitFor();
  // The row of step1 rank2, which has a divergence, inherited errors and calls that agree.
  const heights = await canvas.evaluate((one: HTMLCanvasElement) => {
    const tall = Math.floor(one.height / 12);
    const left = Math.ceil(100 * devicePixelRatio);
    const { data, width } = one.getContext('2d')!.getImageData(left, 6 * tall, one.width - left, tall);
    return Array.from(
      { length: width },
      (_, x) =>
        Array.from({ length: tall }, (_, y) => data[(y * width + x) * 4 + 3] ?? 0).filter((alpha) => alpha > 0).length,
    );
  });
  const found = [...new Set(heights.filter((height) => height > 0))].sort((a, b) => a - b);
  assert.ok(found.length >= 3 && (found.at(-1) ?? 0) > 2 * (found[0] ?? 0), String(found));
});

test('keys move in the heat map', async ({ page }) => {
  await page.locator('[data-chart="heat"]').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  const text = page.locator('[data-field="heat-text"]');
  await eventually(
    () => text.innerText(),
    (one) => one.startsWith('step0 rank1: Functional.linear.8.forward'),
    'the cell',
  );
  await page.keyboard.press('Enter');
  await eventually(
    () => page.locator('#glance-heading').innerText(),
    (one) => one.includes('step0 rank1'),
    'rank',
  );
  await shows(page, 'Functional.linear.8.forward');
});

test('trends over steps can be walked through, and lines be hidden', async ({ page }) => {
  const trend = page.locator('[data-chart="trend"]');
  await trend.locator('[role="application"]').focus();
  await page.keyboard.press('ArrowRight');
  await eventually(
    () => trend.locator('figcaption').innerText(),
    (one) => one === 'step 1: layers.2.mlp: 0.0013',
    'caption',
  );
  await page.keyboard.press('ArrowDown');
  await eventually(
    () => trend.locator('figcaption').innerText(),
    (one) => one === 'step 1: embed: 1e-7',
    'caption',
  );
  await page.keyboard.press('Enter');
  await eventually(
    () => page.locator('#glance-heading').innerText(),
    (one) => one.includes('step1 rank0'),
    'step',
  );
  const line = trend.getByRole('button', { name: 'embed' });
  await line.click();
  assert.equal(await line.getAttribute('aria-pressed'), 'false');
});

test('the list of divergences leads to each of them', async ({ page }) => {
  const list = page.locator('[data-field="divergences"]');
  assert.match(await list.innerText(), /6 calls introduced an error/);
  await list.locator('button.link').nth(3).click();
  await eventually(
    () => page.locator('#glance-heading').innerText(),
    (one) => one.includes('step1 rank2'),
    'rank',
  );
});

test('the address holds the selection', async ({ page }) => {
  await page.locator('[data-field="rank"]').selectOption('rank2');
  await eventually(
    async () => page.url(),
    (url) => url.includes('rank=2'),
    'the address',
  );
  await page.reload();
  await page.locator('main').waitFor();
  assert.match(await page.locator('#glance-heading').innerText(), /step0 rank2/);
});

describe('lines of several ranks', () => {
  const test = pageTests(() => {
    const parts = modelParts({ layers: 2, ranks: 2, steps: 2 });
    const name = `Module.${'deep.'.repeat(12)}Linear.forward.0`;
    const series = ['rank0', 'rank1'].map((rank, at) => ({
      name,
      rank,
      values: [0.1, 0.2 + at],
      ranks: [null, null],
      calls: [null, null],
    }));
    parts.set(partName.trend('error'), jsonPart({ steps: [0, 1], series } satisfies Trend));
    return parts;
  });

  test('the list of lines tells them apart, however long their names are', async ({ page }) => {
    const list = page.locator('[data-chart="trend"] .lines');
    await list.waitFor();
    const edge = await list.evaluate((one) => one.getBoundingClientRect().right);
    const ranks = list.locator('.rank');
    assert.deepEqual(await ranks.allInnerTexts(), ['(rank0)', '(rank1)']);
    const ends = await ranks.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().right));
    assert.ok(
      ends.every((end) => end <= edge + 0.5),
      `${ends} within ${edge}`,
    );
  });
});
