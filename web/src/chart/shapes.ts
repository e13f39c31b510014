import type { Shape } from '../classes.ts';

/** Draws the mark of a class, as Mark.svelte does, with its middle at a point. */
export function drawShape(canvas: CanvasRenderingContext2D, shape: Shape, x: number, y: number, size: number): void {
  const r = size / 2;
  canvas.beginPath();
  switch (shape) {
    case 'ring':
      canvas.arc(x, y, r * 0.6, 0, 2 * Math.PI);
      canvas.lineWidth = Math.max(1, size * 0.12);
      canvas.stroke();
      return;
    case 'dot':
      canvas.arc(x, y, r * 0.6, 0, 2 * Math.PI);
      break;
    case 'triangle':
      polygon(canvas, x, y, r, [-0.8, -0.6, 0.8, -0.6, 0, 0.8]);
      break;
    case 'diamond':
      polygon(canvas, x, y, r, [0, -1.1, 1.1, 0, 0, 1.1, -1.1, 0]);
      break;
    case 'square':
      canvas.rect(x - r * 0.8, y - r * 0.8, r * 1.6, r * 1.6);
      break;
    case 'cross':
      canvas.moveTo(x - r * 0.7, y - r * 0.7);
      canvas.lineTo(x + r * 0.7, y + r * 0.7);
      canvas.moveTo(x + r * 0.7, y - r * 0.7);
      canvas.lineTo(x - r * 0.7, y + r * 0.7);
      canvas.lineWidth = Math.max(1.5, size * 0.22);
      canvas.stroke();
      return;
    case 'half':
      canvas.rect(x, y - r * 0.75, r * 0.75, r * 1.5);
      canvas.fill();
      canvas.beginPath();
      canvas.lineWidth = Math.max(1, size * 0.12);
      canvas.strokeRect(x - r * 0.7, y - r * 0.7, r * 1.4, r * 1.4);
      return;
    case 'dash':
      canvas.rect(x - r * 0.7, y - size * 0.08, r * 0.6, size * 0.16);
      canvas.rect(x + r * 0.1, y - size * 0.08, r * 0.6, size * 0.16);
      break;
  }
  canvas.fill();
}

function polygon(canvas: CanvasRenderingContext2D, x: number, y: number, r: number, points: readonly number[]): void {
  for (let at = 0; at < points.length; at += 2) canvas.lineTo(x + r * (points[at] ?? 0), y + r * (points[at + 1] ?? 0));
  canvas.closePath();
}
