'use strict';
// An agent's page: its node, and nothing else.

const agentSource = new AgentSource();
// oxlint-disable-next-line no-new -- it listens from now on
new Page(agentSource, [['node', 'Node']], () => new NodeView(agentSource, location.host),
  'The agent\u2019s token shows the node and ends leases. It is kept until this tab is closed, and shown to this agent ' +
  'only.');
