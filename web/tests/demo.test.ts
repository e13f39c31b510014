/** Pages as the command writes and serves them, with the data of the demo: `make test-web` names both. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { Browser } from './support/browser.ts';
import { eventually, shows } from './support/cases.ts';

const DEMO_PAGE = process.env['DEMO_PAGE'] ?? '';
const COMMAND = process.env['ULPSCOPE'] ?? '';
const withoutPage = !existsSync(DEMO_PAGE) && 'DEMO_PAGE names no page of the demo';
const withoutCommand = !existsSync(COMMAND) && 'ULPSCOPE does not name the command';

let browser: Browser;
before(async () => (browser = await Browser.start()));
after(() => browser.stop());

async function findsTheFault(page: Page): Promise<void> {
  assert.match(await page.locator('h1').innerText(), /^Autograd\.FusedGelu\.2 returns a different result/);
  await shows(page, 'Autograd.FusedGelu.2.forward');
  await page.locator('[data-field="row-filter"]').fill('FusedGelu.2.forward diverged output.0');
  await eventually(
    () => page.locator('[data-field="row-count"]').innerText(),
    (text) => /^1 row of/.test(text),
    'one row',
  );
  await page.locator('[data-field="step"]').selectOption('2');
  await eventually(
    () => page.locator('#glance-heading').innerText(),
    (text) => text.includes('step2'),
    'the last step',
  );
  await shows(page, 'Autograd.FusedGelu.2.forward');
}

test('the page of the demo', { skip: withoutPage }, async () => {
  const { page, complaints } = await browser.openFile(readFileSync(DEMO_PAGE, 'utf8'));
  await findsTheFault(page);
  assert.deepEqual(complaints, []);
});

/** The address that a server prints. */
function addressOf(server: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let printed = '';
    const read = (text: Buffer) => {
      printed += String(text);
      const address = /http:\/\/127\.0\.0\.1:\d+\/\w+\//.exec(printed)?.[0];
      if (address) found(address);
    };
    server.stdout?.on('data', read);
    server.stderr?.on('data', read);
    server.on('exit', () => failed(new Error(`the server ended: ${printed}`)));
  });
}

test('one run of the demo, served by the command', { skip: withoutPage || withoutCommand }, async () => {
  const server = spawn(COMMAND, ['view', join(dirname(DEMO_PAGE), 'golden')]);
  try {
    const { page, complaints } = await browser.openAddress(await addressOf(server));
    assert.match(await page.locator('.badge').innerText(), /ONE RUN/);
    await page.keyboard.press('/');
    await page.keyboard.type('linear.1.forward');
    await page.keyboard.press('Enter');
    await shows(page, 'Functional.linear.1.forward');
    await page.locator('[data-field="histogram"]').first().waitFor();
    await page.locator('[data-view="table"]').focus();
    await page.keyboard.press('End');
    await eventually(
      () => page.locator('[data-view="table"] .rows .row').last().innerText(),
      (text) => !text.includes('…'),
      'the last rows',
    );
    assert.deepEqual(complaints, []);
  } finally {
    server.kill('SIGINT');
  }
});
