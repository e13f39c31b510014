import type { Finding } from '../payload.ts';

/** The same finding at the same call in several steps and ranks. */
export interface FindingGroup {
  readonly kind: string;
  readonly text: string;
  readonly findings: Finding[];
}

export function groupsOf(findings: readonly Finding[]): FindingGroup[] {
  const groups = new Map<string, FindingGroup>();
  for (const finding of findings) {
    const key = `${finding.kind} ${finding.text}`;
    const known = groups.get(key);
    if (known) known.findings.push(finding);
    else groups.set(key, { kind: finding.kind, text: finding.text, findings: [finding] });
  }
  return [...groups.values()];
}
