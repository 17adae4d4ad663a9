// Lint a document by Redocly's recommended rules, without its CLI, which needs 200 packages more: node redocly.mjs FILE
import core from '@redocly/openapi-core';

const config = await core.loadConfig({ configPath: new URL('redocly.yaml', import.meta.url).pathname });
const problems = await core.lint({ ref: process.argv[2], config });
const totals = core.getTotals(problems);
core.formatProblems(problems, { format: 'stylish', totals, version: '' });
process.exitCode = totals.errors + totals.warnings > 0 ? 1 : 0;
