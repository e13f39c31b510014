import assert from 'node:assert/strict';
import { test } from 'node:test';
import { frameOf, groupsOf } from '../src/call/frames.ts';

test('a frame has a place, a function and a line of code', () => {
  const { place, within, code, isLibrary } = frameOf(
    'File /home/me/project/src/model.py, line 48, in forward, return f(a, b)',
  );
  assert.deepEqual([place, within, code, isLibrary], ['src/model.py:48', 'forward', 'return f(a, b)', false]);
});

test('a frame without code, on Windows, and one from a sheet', () => {
  assert.equal(frameOf('File C:\\work\\src\\model.py, line 3, in <module>').place, 'src/model.py:3');
  const { place, within, code } = frameOf('model.py:48 forward: return x + y');
  assert.deepEqual([place, within, code], ['model.py:48', 'forward', 'return x + y']);
});

test('a text of any other form is shown as it is', () => {
  for (const text of ['', 'somewhere', '<script>:x y', 'File , line , in'])
    assert.deepEqual([frameOf(text).place, frameOf(text).code], [text, '']);
});

test('frames of libraries are next to each other', () => {
  const library = 'File /env/lib/python3.11/site-packages/torch/nn/modules/module.py, line 1, in _call_impl, x';
  const own = 'File train.py, line 2, in main, y';
  const groups = groupsOf([own, library, library, own].map(frameOf));
  assert.deepEqual(
    groups.map((group) => [group.isLibrary, group.frames.length]),
    [
      [false, 1],
      [true, 2],
      [false, 1],
    ],
  );
});
