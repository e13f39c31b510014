/** Which rows of a long list are in view. */

export interface Window {
  /** The first row in view, and the one after the last. */
  readonly first: number;
  readonly last: number;
  /** Where the first of them is drawn, in pixels from the top of the list. */
  readonly offset: number;
  /** Height of the list in pixels. */
  readonly height: number;
}

/** Browsers cannot make an element of any height: beyond this, a pixel of the scroll bar stands for several of the list. */
const MAX_HEIGHT = 8_000_000;
const MARGIN = 6;

export function windowOf(scrollTop: number, viewHeight: number, count: number, rowHeight: number): Window {
  const full = count * rowHeight;
  const height = Math.min(full, MAX_HEIGHT);
  const hidden = Math.max(height - viewHeight, 0);
  const top = hidden > 0 ? (Math.min(scrollTop, hidden) / hidden) * Math.max(full - viewHeight, 0) : 0;
  const first = Math.max(0, Math.floor(top / rowHeight) - MARGIN);
  const last = Math.min(count, Math.ceil((top + viewHeight) / rowHeight) + MARGIN);
  return { first, last, offset: scrollTop - (top - first * rowHeight), height };
}

/**
 * The scroll position at which a row is in view, as near as possible to the present one. With `space`, a row that was out
 * of view gets so many rows before it.
 */
export function scrollTo(
  row: number,
  scrollTop: number,
  viewHeight: number,
  count: number,
  rowHeight: number,
  space = 0,
): number {
  const full = count * rowHeight;
  const height = Math.min(full, MAX_HEIGHT);
  const hidden = Math.max(height - viewHeight, 0);
  if (hidden === 0) return 0;
  const room = full - viewHeight;
  const top = (Math.min(scrollTop, hidden) / hidden) * room;
  const isInView = row * rowHeight >= top && (row + 1) * rowHeight <= top + viewHeight;
  const near = Math.max(Math.min(top, row * rowHeight), (row + 1) * rowHeight - viewHeight);
  const spaced = Math.min(Math.max((row - space) * rowHeight, 0), Math.max(room, 0));
  const wished = space > 0 && !isInView ? spaced : near;
  return wished === top ? scrollTop : (wished / room) * hidden;
}
