/** Frames of a stack: the place, the function and the line of code, and which belong to libraries. */

export interface Frame {
  /** `examples/demo.py:48`; the whole text, if it has no such form. */
  readonly place: string;
  readonly within: string;
  readonly code: string;
  readonly whole: string;
  readonly isLibrary: boolean;
}

/** Frames next to each other that are all of libraries, or all not. */
export interface FrameGroup {
  readonly isLibrary: boolean;
  readonly frames: readonly Frame[];
}

// As PyTorch's tracer writes them, and as `code` of a sheet.
const RECORDED = /^File "?(.+?)"?, line (\d+), in ([^,]+)(?:,\s*(.*))?$/s;
const IN_SHEET = /^(\S.*?):(\d+) (\S+?):?(?: (.*))?$/s;
const LIBRARY = /[\\/](?:site|dist)-packages[\\/]|[\\/]lib[\\/]python3[^\\/]*[\\/]|<frozen /;

export function frameOf(text: string): Frame {
  const [, file, line, within = '', code = ''] = RECORDED.exec(text) ?? IN_SHEET.exec(text) ?? [];
  const isLibrary = LIBRARY.test(text);
  if (file === undefined) return { place: text, within: '', code: '', whole: text, isLibrary };
  const short = file.split(/[\\/]/).slice(-2).join('/');
  return { place: `${short}:${line}`, within, code, whole: text, isLibrary };
}

export function groupsOf(frames: readonly Frame[]): FrameGroup[] {
  const groups: { isLibrary: boolean; frames: Frame[] }[] = [];
  for (const frame of frames) {
    const last = groups.at(-1);
    if (last?.isLibrary === frame.isLibrary) last.frames.push(frame);
    else groups.push({ isLibrary: frame.isLibrary, frames: [frame] });
  }
  return groups;
}
