/** The rules that a program can check for readers with other needs; the walk with the keyboard is in keyboard.test.ts. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { describe } from 'node:test';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { pageTests } from './support/cases.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const results = await page.evaluate(() =>
    (globalThis as unknown as { axe: { run: () => Promise<AxeResults> } }).axe.run(),
  );
  return results.violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes
        .slice(0, 3)
        .map((node) => node.html.slice(0, 160))
        .join(' | ')}`,
  );
}

for (const colorScheme of ['light', 'dark'] as const) {
  describe(colorScheme, () => {
    const test = pageTests({ layers: 4, ranks: 2, steps: 2 }, { colorScheme });

    test('no rule is violated', async ({ page }) => {
      await page.locator('[data-field="entry-panel"]').waitFor();
      assert.deepEqual(await violations(page), []);
    });
  });
}

describe('with everything open', () => {
  const test = pageTests({ layers: 4 });

  test('no rule is violated', async ({ page }) => {
    await page.locator('details.explanation summary').click();
    await page.getByRole('button', { name: 'Open all' }).click();
    await page.getByRole('button', { name: /^Columns/ }).click();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press('Escape');
    await page.keyboard.press('/');
    await page.keyboard.type('linear');
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    assert.deepEqual(await violations(page), []);
  });
});
