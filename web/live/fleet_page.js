'use strict';
// The planning server's page: its views, by the address after '#'.

/**
 * @param {Source} source
 * @returns {(kind: string, name: string) => View}
 */
const fleetViews = source => (kind, name) => {
  if (kind === 'jobs') return name ? new JobView(source, name) : jobsView(source);
  if (kind === 'nodes') return name ? new NodeView(source, name) : nodesView(source);
  if (kind === 'what-if') return new WhatIfView(source, name);
  return new FleetView(source);
};

const fleetSource = new Source();
// oxlint-disable-next-line no-new -- it listens from now on
new Page(fleetSource, [['fleet', 'Fleet'], ['jobs', 'Jobs'], ['nodes', 'Nodes'], ['what-if', 'What if']], fleetViews(fleetSource),
  'The administrator\u2019s token shows all jobs and nodes, a job\u2019s token that job alone. It is kept until this tab ' +
  'is closed, and shown to this server only.');
