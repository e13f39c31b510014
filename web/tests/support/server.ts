/** Serves a page and its parts on loopback, as `ulpscope view` does. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { deflated, pageOfServer, type PageParts } from './page_file.ts';

export interface Served {
  readonly address: string;
  stop(): Promise<void>;
}

export async function serve(parts: PageParts): Promise<Served> {
  const bodies = deflated(parts);
  const html = pageOfServer();
  const server = createServer((request, answer) => {
    const path = decodeURIComponent(new URL(request.url ?? '/', 'http://127.0.0.1').pathname);
    const part = path.startsWith('/token/parts/') ? bodies.get(path.slice('/token/parts/'.length)) : undefined;
    if (path === '/token/') answer.setHeader('content-type', 'text/html').end(html);
    else if (part) answer.setHeader('content-type', 'application/octet-stream').end(part);
    else answer.writeHead(path.startsWith('/token/parts/') ? 204 : 404).end();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return {
    address: `http://127.0.0.1:${port}/token/`,
    stop: () =>
      new Promise<void>((done) => {
        server.closeAllConnections();
        server.close(() => done());
      }),
  };
}
