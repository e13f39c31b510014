/** A page in Chinese: the first screen follows the language of the result. */
import assert from 'node:assert/strict';
import { pageTests } from './support/cases.ts';

const test = pageTests({ language: 'zh', ranks: 2 });

test('verdict, headings and labels are in Chinese', async ({ page }) => {
  assert.equal(await page.locator('html').getAttribute('lang'), 'zh');
  assert.match(await page.locator('.badge').innerText(), /DIFFER（不同）/);
  const card = await page.locator('[data-field="first-divergence"]').innerText();
  for (const word of [
    '第一个分歧',
    '在此分歧',
    '调用',
    '前向',
    '模块',
    '代码',
    '条目',
    '实测',
    '允许',
    '倍',
    '置信度: 很高',
  ])
    assert.ok(card.includes(word), `${word} in ${card}`);
  assert.deepEqual(await page.locator('main > section > h2').allInnerTexts(), [
    '运行概览step0 rank0',
    '模型',
    '所选调用',
    '所有行',
  ]);
  assert.match(await page.locator('.legend').innerText(), /按分类[^]*在此分歧[^]*输入一致，结果不一致/);
  assert.match(await page.locator('header').innerText(), /目标[^]*标杆/);
  assert.match(await page.locator('[data-field="call-class"]').innerText(), /^在此分歧/);
});
