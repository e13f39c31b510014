/** What a page says when its server cannot send something. */
import { after, before, test } from 'node:test';
import { Browser } from './support/browser.ts';
import { eventually } from './support/cases.ts';
import { modelParts } from './support/model.ts';

let browser: Browser;
before(async () => void (browser = await Browser.start()));
after(() => browser.stop());

test('a dump that was moved is named, with what to do', async () => {
  const { page, address } = await browser.open(modelParts({}), 'served');
  const why = 'the target is not at runs/npu any more; put it back there';
  await page.route(`${address}parts/detail/**`, (route) => route.fulfill({ status: 503, body: why }));
  await page.reload();
  await eventually(
    () => page.locator('#call').innerText(),
    (text) => text.includes(why),
    'the message',
  );
});
