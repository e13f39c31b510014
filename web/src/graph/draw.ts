/** Draws a neighbourhood on a canvas. */
import { drawShape } from '../chart/shapes.ts';
import { classOf } from '../classes.ts';
import { counted } from '../text/number.ts';
import { ending } from '../text/visible.ts';
import type { Neighbourhood } from './neighbourhood.ts';

export interface NodeText {
  readonly title: string;
  readonly subtitle: string;
  readonly mark: string | null;
}

export interface Camera {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

export interface Drawing {
  readonly graph: Neighbourhood;
  readonly texts: readonly NodeText[];
  readonly camera: Camera;
  readonly focus: number;
  readonly hovered: number | null;
  readonly hasFocus: boolean;
  readonly colour: (property: string) => string;
}

export const NODE = { width: 142, height: 38, gapX: 38, gapY: 16 } as const;

/** The middle of a node in the units of the drawing. */
export function middleOf(graph: Neighbourhood, node: number): [number, number] {
  return place(graph.layout.x[node] ?? 0, graph.layout.y[node] ?? 0);
}

function place(layer: number, row: number): [number, number] {
  return [layer * (NODE.width + NODE.gapX), row * (NODE.height + NODE.gapY)];
}

export function draw(canvas: CanvasRenderingContext2D, width: number, height: number, drawing: Drawing): void {
  const { graph, camera, colour } = drawing;
  const ratio = devicePixelRatio;
  canvas.setTransform(ratio, 0, 0, ratio, 0, 0);
  canvas.clearRect(0, 0, width, height);
  canvas.translate(width / 2, height / 2);
  canvas.scale(camera.scale, camera.scale);
  canvas.translate(-camera.x, -camera.y);
  graph.edges.forEach((edge, at) => {
    const isOwn = edge.from === graph.centre || edge.to === graph.centre;
    canvas.strokeStyle = canvas.fillStyle = colour(isOwn ? '--ink-2' : '--line-strong');
    canvas.lineWidth = isOwn ? 1.6 : 1.1;
    drawEdge(canvas, graph, at);
  });
  graph.nodes.forEach((_, node) => drawNode(canvas, drawing, node));
}

function drawEdge(canvas: CanvasRenderingContext2D, graph: Neighbourhood, at: number): void {
  const edge = graph.edges[at];
  if (!edge) return;
  const [startX, startY] = middleOf(graph, edge.from);
  const [endX, endY] = middleOf(graph, edge.to);
  const points: [number, number][] = [[startX + NODE.width / 2, startY]];
  const bends = graph.layout.bends[at] ?? new Float64Array();
  for (let bend = 0; bend < bends.length; bend += 2) {
    const [x, y] = place(bends[bend] ?? 0, bends[bend + 1] ?? 0);
    points.push([x - NODE.width / 2, y], [x + NODE.width / 2, y]);
  }
  points.push([endX - NODE.width / 2 - 5, endY]);
  canvas.beginPath();
  points.forEach(([x, y], index) => {
    const previous = points[index - 1];
    if (!previous) canvas.moveTo(x, y);
    else {
      const middle = (previous[0] + x) / 2;
      canvas.bezierCurveTo(middle, previous[1], middle, y, x, y);
    }
  });
  canvas.stroke();
  canvas.beginPath();
  canvas.moveTo(endX - NODE.width / 2, endY);
  canvas.lineTo(endX - NODE.width / 2 - 7, endY - 3.5);
  canvas.lineTo(endX - NODE.width / 2 - 7, endY + 3.5);
  canvas.fill();
}

function drawNode(canvas: CanvasRenderingContext2D, drawing: Drawing, at: number): void {
  const { graph, texts, colour, focus, hovered, hasFocus } = drawing;
  const node = graph.nodes[at];
  const text = texts[at];
  if (!node || !text) return;
  const [x, y] = middleOf(graph, at);
  const [left, top] = [x - NODE.width / 2, y - NODE.height / 2];
  const isCentre = at === graph.centre;
  canvas.beginPath();
  canvas.roundRect(left, top, NODE.width, NODE.height, node.call === null ? NODE.height / 2 : 5);
  canvas.fillStyle = colour(isCentre ? '--accent-soft' : '--raised');
  canvas.fill();
  canvas.strokeStyle = colour(isCentre ? '--accent' : hovered === at ? '--ink-2' : '--line-strong');
  canvas.lineWidth = isCentre ? 2 : 1;
  if (node.call === null) canvas.setLineDash([4, 3]);
  canvas.stroke();
  canvas.setLineDash([]);
  if (hasFocus && focus === at) {
    canvas.beginPath();
    canvas.roundRect(left - 4, top - 4, NODE.width + 8, NODE.height + 8, node.call === null ? 24 : 8);
    canvas.strokeStyle = colour('--accent');
    canvas.lineWidth = 2;
    canvas.stroke();
  }

  let textLeft = left + 10;
  if (text.mark !== null) {
    const kind = classOf(text.mark);
    canvas.fillStyle = canvas.strokeStyle = colour(kind.colour);
    drawShape(canvas, kind.shape, left + 14, y, 12);
    textLeft = left + 26;
  }
  const room = left + NODE.width - 8 - textLeft;
  canvas.textAlign = 'left';
  canvas.textBaseline = 'middle';
  canvas.fillStyle = colour('--ink');
  canvas.font = `600 12px ${colour('--sans')}`;
  fitted(canvas, text.title, textLeft, text.subtitle ? y - 8 : y, room);
  canvas.fillStyle = colour('--ink-2');
  canvas.font = `11px ${colour('--mono')}`;
  if (text.subtitle) fitted(canvas, text.subtitle, textLeft, y + 8, room);

  badge(canvas, node.hiddenProducers, left, top + NODE.height, colour);
  badge(canvas, node.hiddenConsumers, left + NODE.width, top + NODE.height, colour);
}

/** How many neighbours on this side are not drawn, at a corner of the node. */
function badge(
  canvas: CanvasRenderingContext2D,
  count: number,
  x: number,
  y: number,
  colour: (property: string) => string,
): void {
  if (count === 0) return;
  canvas.font = `10px ${colour('--sans')}`;
  canvas.textAlign = 'center';
  const text = `+${counted(count)}`;
  const width = canvas.measureText(text).width + 8;
  canvas.beginPath();
  canvas.roundRect(x - width / 2, y - 7, width, 13, 6.5);
  canvas.fillStyle = colour('--paper');
  canvas.fill();
  canvas.strokeStyle = colour('--line-strong');
  canvas.lineWidth = 1;
  canvas.stroke();
  canvas.fillStyle = colour('--ink-2');
  canvas.fillText(text, x, y);
}

/** The end of a text that fits, since names differ most there. */
function fitted(canvas: CanvasRenderingContext2D, text: string, x: number, y: number, room: number): void {
  let shown = ending(text, 60);
  for (let length = 60; length > 3 && canvas.measureText(shown).width > room; length -= 1) shown = ending(text, length);
  canvas.fillText(shown, x, y);
}
