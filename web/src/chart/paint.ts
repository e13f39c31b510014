/** Draws what uPlot does not know: the noise floor, passes, marks of classes, the first divergence. */
import type uPlot from 'uplot';
import { classOf } from '../classes.ts';
import { drawShape } from './shapes.ts';
import type { Series } from './series.ts';

export interface Painting {
  series: Series;
  first: number | null;
  firstLabel: string;
  hasPasses: boolean;
  /** What the passes are called: forward, backward. */
  passNames: [string, string];
  showForward: boolean;
  showBackward: boolean;
  colour: (property: string) => string;
}

/** More marks than this are drawn as squares of a few pixels, except for those that need attention. */
const MANY = 4000;

/** Gaps of the noise floor up to so many pixels are filled, to the lower of their sides. */
const NARROW_GAP = 12;

export function paintBackground(plot: uPlot, painting: Painting): void {
  const { ctx: canvas, bbox } = plot;
  const { series, colour } = painting;
  const [from, to] = visibleRange(plot, series.y.length);
  const places = placesOf(plot);
  const left = (call: number) => places.x(call - 0.5);
  const bottom = bbox.top + bbox.height;
  canvas.save();

  // Tensors of a file belong to no pass. The names are over the drawing, where no mark can be.
  if (painting.hasPasses)
    eachPass(series, from, to, (start, end, isBackward) => {
      const x = Math.max(left(start), bbox.left);
      const right = Math.min(left(end), bbox.left + bbox.width);
      if (isBackward) {
        canvas.fillStyle = colour('--shade');
        canvas.fillRect(x, bbox.top, right - x, bbox.height);
      }
      const text = painting.passNames[isBackward ? 1 : 0];
      canvas.font = `${11 * devicePixelRatio}px ${colour('--sans')}`;
      if (x + canvas.measureText(text).width < right) {
        canvas.fillStyle = colour('--ink-3');
        canvas.textAlign = 'left';
        canvas.fillText(text, x, bbox.top - 5 * devicePixelRatio);
      }
    });
  clip(canvas, bbox);

  // One rectangle for all calls that share a column of pixels: the largest of their floors.
  canvas.fillStyle = colour('--band');
  let column = -1;
  let end = -1;
  let top = bottom;
  let before = { end: -Infinity, top: bottom };
  const finish = () => {
    // A narrow gap, of calls that agree and were not judged, would make a pattern of stripes that means nothing.
    const gap = column - before.end;
    const shared = Math.max(before.top, top);
    if (gap > 0 && gap <= NARROW_GAP * devicePixelRatio) canvas.fillRect(before.end, shared, gap, bottom - shared);
    canvas.fillRect(column, top, end - column, bottom - top);
    before = { end, top };
  };
  for (let call = from; call < to; call += 1) {
    const floor = series.floor[call] ?? NaN;
    if (!(floor > 0)) continue;
    const at = Math.floor(left(call));
    if (at !== column) {
      if (column >= 0) finish();
      [column, top] = [at, bottom];
    }
    end = Math.max(at + 1, Math.ceil(left(call + 1)));
    top = Math.min(top, places.y(Math.log10(floor)));
  }
  if (column >= 0) finish();
  canvas.restore();
}

export function paintMarks(plot: uPlot, painting: Painting): void {
  const { ctx: canvas, bbox } = plot;
  const { series, colour, first } = painting;
  const [from, to] = visibleRange(plot, series.y.length);
  const ratio = devicePixelRatio;
  const places = placesOf(plot);
  canvas.save();
  clip(canvas, bbox);
  if (first !== null) line(plot, first, colour('--diverged'), [4 * ratio, 3 * ratio], 1.2 * ratio);

  const byMark = new Map<string, number[]>();
  for (let call = from; call < to; call += 1) {
    if (series.y[call] === null || !isShown(painting, call)) continue;
    const mark = series.marks[call] ?? '';
    const list = byMark.get(mark);
    if (list) list.push(call);
    else byMark.set(mark, [call]);
  }
  const groups = [...byMark].map(([mark, calls]) => ({ kind: classOf(mark), calls }));
  groups.sort((a, b) => a.kind.weight - b.kind.weight);
  for (const { kind, calls } of groups) {
    canvas.fillStyle = canvas.strokeStyle = colour(kind.colour);
    const isPlain = to - from > MANY && kind.weight < 5;
    const taken = new Set<number>();
    for (const call of calls) {
      const x = places.x(call);
      const y = places.y(series.y[call] ?? 0);
      // Marks of one class at one place look like one.
      const spot = Math.round(x) * 65536 + Math.round(y);
      if (taken.has(spot)) continue;
      taken.add(spot);
      if (isPlain) canvas.fillRect(x - ratio, y - ratio, 2 * ratio, 2 * ratio);
      else drawShape(canvas, kind.shape, x, y, (kind.weight >= 5 ? 10 : 7) * ratio);
    }
  }
  if (first !== null) flag(plot, first, series.y[first] ?? null, painting.firstLabel, colour);
  canvas.restore();
}

/** Both axes are linear in what they are given, so two points of each are enough. */
function placesOf(plot: uPlot): { x: (call: number) => number; y: (value: number) => number } {
  const [x0, y0] = [plot.valToPos(0, 'x', true), plot.valToPos(0, 'y', true)];
  const [dx, dy] = [plot.valToPos(1, 'x', true) - x0, plot.valToPos(1, 'y', true) - y0];
  return { x: (call) => x0 + call * dx, y: (value) => y0 + value * dy };
}

/** The call whose mark is nearest to a point in pixels of the page; null if none is near. */
export function nearest(plot: uPlot, painting: Painting, x: number, y: number): number | null {
  const { series } = painting;
  const reach = 14;
  const from = Math.max(0, Math.floor(plot.posToVal(x - reach, 'x')));
  const to = Math.min(series.y.length - 1, Math.ceil(plot.posToVal(x + reach, 'x')));
  let best: number | null = null;
  let distance = Infinity;
  for (let call = from; call <= to; call += 1) {
    const at = series.y[call];
    if (at === null || at === undefined || !isShown(painting, call)) continue;
    const dx = plot.valToPos(call, 'x') - x;
    // Far above or below all marks, the nearest column counts.
    const dy = Math.min(Math.abs(plot.valToPos(at, 'y') - y), 40) / 4;
    const weighted = dx * dx + dy * dy - classOf(series.marks[call]).weight;
    if (weighted < distance) [best, distance] = [call, weighted];
  }
  return best;
}

export function isShown(painting: Painting, call: number): boolean {
  return painting.series.backward[call] ? painting.showBackward : painting.showForward;
}

function visibleRange(plot: uPlot, count: number): [number, number] {
  const { min = 0, max = 0 } = plot.scales['x'] ?? {};
  return [Math.max(0, Math.floor(min ?? 0)), Math.min(count, Math.ceil(max ?? 0) + 1)];
}

/** Forward calls that take less than this of the view belong to the backward pass around them, which makes such calls. */
const SHORT_PASS = 0.08;

function eachPass(
  series: Series,
  from: number,
  to: number,
  visit: (start: number, end: number, isBackward: boolean) => void,
): void {
  const passes: { start: number; end: number; isBackward: boolean }[] = [];
  const add = (start: number, end: number, isBackward: boolean) => {
    const [earlier, last] = passes.slice(-2);
    const isAround = isBackward && earlier?.isBackward && last && last.end - last.start < (to - from) * SHORT_PASS;
    if (isAround) {
      passes.pop();
      earlier.end = end;
    } else passes.push({ start, end, isBackward });
  };
  let start = from;
  for (let call = from; call <= to; call += 1) {
    if (call < to && series.backward[call] === series.backward[start]) continue;
    if (call > start) add(start, call, series.backward[start] === 1);
    start = call;
  }
  for (const pass of passes) visit(pass.start, pass.end, pass.isBackward);
}

function line(plot: uPlot, call: number, colour: string, dash: number[], width: number): void {
  const { ctx: canvas, bbox } = plot;
  const x = Math.round(plot.valToPos(call, 'x', true)) + 0.5;
  canvas.save();
  canvas.strokeStyle = colour;
  canvas.lineWidth = width;
  canvas.setLineDash(dash);
  canvas.beginPath();
  canvas.moveTo(x, bbox.top);
  canvas.lineTo(x, bbox.top + bbox.height);
  canvas.stroke();
  canvas.restore();
}

/** Words beside the line of a call, on the side with more room. */
function flag(
  plot: uPlot,
  call: number,
  value: number | null,
  text: string,
  colour: (property: string) => string,
): void {
  const { ctx: canvas, bbox } = plot;
  const ratio = devicePixelRatio;
  const x = plot.valToPos(call, 'x', true);
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  const isLeft = x > bbox.left + bbox.width / 2;
  canvas.font = `600 ${11.5 * ratio}px ${colour('--sans')}`;
  canvas.textAlign = isLeft ? 'right' : 'left';
  canvas.fillStyle = colour('--diverged');
  // Near the upper end there are marks of neighbours.
  const isHigh = value !== null && plot.valToPos(value, 'y', true) < bbox.top + 44 * ratio;
  const y = isHigh ? bbox.top + bbox.height / 2 : bbox.top + 28 * ratio;
  canvas.fillText(text, x + (isLeft ? -6 : 6) * ratio, y);
}

function clip(canvas: CanvasRenderingContext2D, bbox: uPlot.BBox): void {
  canvas.beginPath();
  canvas.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  canvas.clip();
}
