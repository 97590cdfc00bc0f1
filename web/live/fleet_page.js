'use strict';
// The planning server's page: its views, by the address after '#'.

/**
 * @param {Source} source
 * @returns {(kind: string, name: string) => View}
 */
const fleetViews = source => (kind, name) => {
  if (kind === 'jobs') return name ? new JobView(source, name) : jobsView(source);
  if (kind === 'nodes') return name ? new NodeView(source, name) : nodesView(source);
  return new FleetView(source);
};

const fleetSource = new Source();
// oxlint-disable-next-line no-new -- it listens from now on
new Page(fleetSource, 'fleet', fleetViews(fleetSource));
