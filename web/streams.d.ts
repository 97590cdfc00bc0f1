// What TypeScript 4.8 does not know of browsers yet.
declare class DecompressionStream implements GenericTransformStream {
  constructor(format: 'deflate');
  readonly readable: ReadableStream;
  readonly writable: WritableStream;
}
