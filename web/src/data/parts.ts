/** The named parts of the page's data, from its own elements or from the server that served it. */

import { visible } from '../text/visible.ts';

/** A part that is missing or damaged. */
export class PartError extends Error {
  override name = 'PartError';
}

export interface Parts {
  /** The bytes of a part; null if there is no such part. */
  bytes(name: string): Promise<Uint8Array | null>;
}

/** A part that must be there. */
export async function json<T>(parts: Parts, name: string): Promise<T> {
  const bytes = await parts.bytes(name);
  if (!bytes) throw new PartError(`the part "${name}" is missing: write the page again`);
  return JSON.parse(new TextDecoder().decode(bytes)) as T;
}

/** Where this document says its parts are. */
export function partsOf(page: Document): Parts {
  const server = page.querySelector<HTMLMetaElement>('meta[name="ulpscope-parts"]');
  return server ? new ServedParts(new URL(server.content, page.baseURI)) : new EmbeddedParts(page);
}

class EmbeddedParts implements Parts {
  readonly #elements = new Map<string, Element>();

  constructor(page: Document) {
    for (const element of page.querySelectorAll('script[data-part]')) {
      this.#elements.set(element.getAttribute('data-part') ?? '', element);
    }
  }

  async bytes(name: string): Promise<Uint8Array | null> {
    const text = this.#elements.get(name)?.textContent;
    if (text === undefined || text === null) return null;
    return inflate(name, decodeBase64(text));
  }
}

class ServedParts implements Parts {
  constructor(readonly folder: URL) {}

  async bytes(name: string): Promise<Uint8Array | null> {
    const answer = await fetch(new URL(name, this.folder)).catch(() => null);
    if (!answer)
      throw new PartError(
        'the server does not answer: start `ulpscope view` again, and open the address that it prints',
      );
    if (answer.status === 204 || answer.status === 404) return null;
    // The server says what to do.
    if (answer.status === 503) throw new PartError(visible(await answer.text()));
    if (!answer.ok) throw new PartError(`the server cannot send the part "${name}" (${answer.status})`);
    return inflate(name, new Uint8Array(await answer.arrayBuffer()));
  }
}

function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

async function inflate(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new PartError(`the part "${name}" is damaged: write the page again`);
  }
}
