/** Components are in runes mode: a variable is reactive only where it says so. */
export default { compilerOptions: { runes: true } };
