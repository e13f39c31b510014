import { createHash } from 'node:crypto';
import type { Plugin } from 'vite';
import { licencesOf } from './licences.ts';

/**
 * Puts the script and the styles into the html and leaves no other file.
 *
 * The page is opened from mails and issue attachments, so it must not load anything. The policy in its head lets
 * exactly this script run, by its hash: text of a dump that reached the document as markup could not run.
 */
export function singleFile(): Plugin {
  return {
    name: 'single-file',
    enforce: 'post',
    generateBundle(_options, bundle) {
      const page = Object.values(bundle).find((file) => file.fileName.endsWith('.html'));
      if (page?.type !== 'asset') throw new Error('the build has no html');
      let script = '';
      let style = '';
      const modules: string[] = [];
      for (const file of Object.values(bundle)) {
        if (file === page) continue;
        if (file.type === 'chunk') {
          script += file.code;
          modules.push(...Object.keys(file.modules));
        } else if (file.fileName.endsWith('.css')) style += String(file.source);
        else throw new Error(`${file.fileName} would be a second file`);
        delete bundle[file.fileName];
      }
      // An end tag inside a string of the script would end the script.
      script = script.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
      const hash = createHash('sha256').update(script).digest('base64');
      page.source = String(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, '')
        .replace(/\s*<link rel="(?:stylesheet|modulepreload)"[^>]*>/g, '')
        .replace('SCRIPT_HASH', () => `sha256-${hash}`)
        .replace('</head>', () => `<style>${style}</style>\n</head>`)
        .replace(
          '</body>',
          () => `<!--\n${licencesOf(modules)}\n-->\n<script type="module">${script}</script>\n</body>`,
        );
    },
  };
}
