/** Colours for canvases: styles reach everything else without them. */

class Theme {
  /** Counts up when the colours change: dark or light, screen or paper. */
  version = $state(0);

  constructor() {
    for (const query of ['(prefers-color-scheme: dark)', 'print']) {
      matchMedia(query).addEventListener('change', () => (this.version += 1));
    }
  }

  colour(property: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(property).trim();
  }
}

export const theme = new Theme();

/** Looks a colour up once per drawing. */
export function palette(): (property: string) => string {
  const style = getComputedStyle(document.documentElement);
  const known = new Map<string, string>();
  return (property) => {
    const found = known.get(property) ?? style.getPropertyValue(property).trim();
    known.set(property, found);
    return found;
  };
}
