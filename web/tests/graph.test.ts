import assert from 'node:assert/strict';
import { eventually, pageTests, shows } from './support/cases.ts';

const test = pageTests({ layers: 4 });

test('the neighbourhood grows with the distance', async ({ page }) => {
  const graph = page.locator('[data-view="graph"]');
  const nodes = async () => Number(await graph.getAttribute('data-nodes'));
  const near = await nodes();
  assert.ok(near >= 5, String(near));
  await page.getByLabel('Distance').selectOption('6');
  await eventually(nodes, (count) => count > near, 'more nodes');
});

test('something is drawn, and a click on a node selects it', async ({ page }) => {
  const canvas = page.locator('[data-view="graph"] canvas');
  await canvas.scrollIntoViewIfNeeded();
  const colours = await canvas.evaluate((one: HTMLCanvasElement) => {
    const { data } = one.getContext('2d')!.getImageData(0, 0, one.width, one.height);
    return new Set(new Uint32Array(data.buffer)).size;
  });
  assert.ok(colours > 20, 'the canvas is not empty');
  const box = await canvas.boundingBox();
  assert.ok(box);
  // The consumer is one layer to the right of the middle.
  for (let dy = -80; dy <= 80; dy += 20) {
    await page.mouse.move(box.x + box.width / 2 + 160, box.y + box.height / 2 + dy);
    if ((await page.locator('[data-view="graph"] .tip').count()) > 0) break;
  }
  assert.match(await page.locator('[data-view="graph"] .tip').innerText(), /Functional\.linear\.8\.forward/);
  await page.mouse.down();
  await page.mouse.up();
  await shows(page, 'Functional.linear.8.forward');
});

test('keys walk along the data flow', async ({ page }) => {
  await page.locator('[data-view="graph"]').focus();
  await page.keyboard.press('ArrowLeft');
  const label = () => page.locator('[data-view="graph"]').getAttribute('aria-label');
  await eventually(label, (text) => /At linear layers\.2\.mlp/.test(text ?? ''), 'at the producer');
  await page.keyboard.press('Enter');
  await shows(page, 'Functional.linear.7.forward');
});

test('producers, consumers and origins are listed as text', async ({ page }) => {
  assert.match(await page.locator('[data-list="producers"]').innerText(), /input\.0\s+Functional\.linear\.7\.forward/);
  await page.locator('[data-list="consumers"] button').first().click();
  await shows(page, 'Functional.linear.8.forward');
  await eventually(
    () => page.locator('[data-list="producers"]').innerText(),
    (text) => text.includes('parameter:layers.2.mlp.weight'),
    'the weight',
  );
});

test('the drawing can be moved, zoomed and fitted', async ({ page }) => {
  const canvas = page.locator('[data-view="graph"] canvas');
  await canvas.scrollIntoViewIfNeeded();
  const picture = () =>
    canvas.evaluate((one: HTMLCanvasElement) => one.toDataURL().length + one.toDataURL().slice(-4000));
  const seen = new Set([await picture()]);
  const box = await canvas.boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + 30, box.y + 30);
  await page.mouse.down();
  await page.mouse.move(box.x + 130, box.y + 90, { steps: 4 });
  await page.mouse.up();
  seen.add(await picture());
  await page.locator('.model').getByRole('button', { name: 'Zoom in' }).click();
  seen.add(await picture());
  await page.getByRole('button', { name: 'Fit' }).click();
  seen.add(await picture());
  assert.equal(seen.size, 4);
});

test('a call of the golden alone shows the flow of the golden', async ({ page }) => {
  await page.keyboard.press('/');
  await page.keyboard.type('Tensor.glu');
  await page.keyboard.press('Enter');
  await shows(page, 'Tensor.glu.0.forward');
  assert.ok(await page.getByLabel('Side').isDisabled());
  await eventually(
    () => page.locator('[data-list="producers"]').innerText(),
    (text) => text.includes('Functional.add.3'),
    'producer',
  );
});
