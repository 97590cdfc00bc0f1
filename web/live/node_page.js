'use strict';
// An agent's page: its node, and nothing else.

const agentSource = new AgentSource();
// oxlint-disable-next-line no-new -- it listens from now on
new Page(agentSource, 'node', () => new NodeView(agentSource, location.host));
