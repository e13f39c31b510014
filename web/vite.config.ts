import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { singleFile } from './single-file.ts';

export default defineConfig({
  plugins: [svelte(), singleFile()],
  build: {
    target: 'es2022',
    // crates/report embeds it from there.
    outDir: '../crates/report/page',
    emptyOutDir: true,
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    reportCompressedSize: false,
  },
});
