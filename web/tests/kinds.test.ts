import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { eventually, pageTests, shows } from './support/cases.ts';

describe('a single run', () => {
  const test = pageTests({ kind: 'run', steps: 2 });

  test('findings lead to their calls', async ({ page }) => {
    const findings = page.locator('[data-field="findings"]');
    assert.match(
      await findings.innerText(),
      /3 findings[^]*not finite[^]*3 elements are NaN\.[^]*…\/src\/model\.py:48 forward: return x/,
    );
    await findings.getByRole('button', { name: 'All elements are zero.' }).click();
    await eventually(
      () => page.locator('[data-field="call-class"]').innerText(),
      (text) => text.startsWith('dead'),
      'the dead call',
    );
  });

  test('the page opens at the gravest finding, whatever its step', async ({ page }) => {
    assert.equal(await page.locator('[data-field="step"]').inputValue(), '1');
    await eventually(
      () => page.locator('[data-field="call-class"]').innerText(),
      (text) => text.startsWith('not finite'),
      'the finding',
    );
  });

  test('a finding in several steps is one line that leads to each', async ({ page }) => {
    const findings = page.locator('[data-field="findings"]');
    assert.equal(await findings.getByText('All elements are zero.').count(), 1);
    await findings.getByRole('button', { name: 'step1' }).last().click();
    await eventually(
      () => page.locator('#glance-heading').innerText(),
      (text) => text.includes('step1'),
      'the step',
    );
    await eventually(
      () => page.locator('[data-field="call-class"]').innerText(),
      (text) => text.startsWith('dead'),
      'the dead call',
    );
  });

  test('norms are charted, and the largest values on request', async ({ page }) => {
    const measure = page.getByLabel('Measure');
    assert.match(
      (await page.locator('[data-chart="error"]').getAttribute('aria-label')) ?? '',
      /^Norm of the first output/,
    );
    await measure.selectOption('max_abs');
    await eventually(
      () => page.locator('[data-chart="error"]').getAttribute('aria-label'),
      (text) => /^Largest/.test(text ?? ''),
      'the measure',
    );
    assert.equal(await page.getByText('golden', { exact: true }).count(), 0, 'there is no golden');
  });
});

describe('two checkpoints', () => {
  const test = pageTests({ kind: 'tensors' });

  test('each tensor has its place in the tree and its details', async ({ page }) => {
    assert.equal(await page.locator('#model-heading').innerText(), 'By name');
    assert.equal(await page.locator('[data-view="graph"]').count(), 0);
    await page.keyboard.press('/');
    await page.keyboard.type('embedding.0.forward');
    await page.keyboard.press('Enter');
    await shows(page, 'Functional.embedding.0.forward');
    await page.locator('[data-field="histogram"]').first().waitFor();
  });

  test('the page is about parameters', async ({ page }) => {
    assert.equal(await page.locator('#glance-heading').innerText(), 'All parameters at a glance');
    assert.equal(await page.locator('#call-heading').innerText(), 'The parameter');
    await page.keyboard.press('?');
    await page.locator('dialog[open]').waitFor();
    // Names of columns and of the made-up rows are data.
    const data = page.locator('[data-view="table"], [data-view="tree"], .name, option, footer');
    await data.evaluateAll((all) => all.forEach((one) => one.remove()));
    assert.doesNotMatch(await page.locator('body').innerText(), /\bcalls?\b/);
  });
});

describe('a page without steps, ranks, flow and details', () => {
  const test = pageTests({ layers: 1 });

  test('what is not there is not offered', async ({ page }) => {
    assert.equal(await page.locator('[data-field="step"], [data-field="rank"], [data-chart="heat"]').count(), 0);
    assert.equal(await page.locator('[data-chart="trend"]').count(), 0);
  });
});
