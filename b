20859 flyball voluntary_ctxt_switches: 58 nonvoluntary_ctxt_switches: 2 13904063
20865 flyball voluntary_ctxt_switches: 5 nonvoluntary_ctxt_switches: 8 194106
