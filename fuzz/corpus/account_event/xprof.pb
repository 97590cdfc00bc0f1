
×/device:GPU:0TStream #7(Compute)è"Ð ö§"8"'€•õ* Â"		*dot.2"	
*jit_f""	sgemm*	
	hlo_op*
program_id*


hlo_module*head/MatMul:MatMul*	tf_op
;	/host:CPU	pythonè" ÷6"a/MatMul:MatMul
j/host:metadata"EAjit_f(3)*32/
-+)
dot.2: jit(f)/jit(main)/jvp(head)/dot*	Hlo Proto
<Task Environment*profile_start_time2€€¨±ãŸçË