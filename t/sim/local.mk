# SPDX-License-Identifier: Apache-2.0
# The simulator: the world in a library of its own, so that its tests need no node.
noinst_LIBRARIES += t/sim/libsim.a
t_sim_libsim_a_SOURCES = \
	t/sim/history.c t/sim/history.h \
	t/sim/sim.c t/sim/sim.h \
	t/sim/sim_check.c t/sim/sim_check.h \
	t/sim/sim_env.c \
	t/sim/sim_sql.c t/sim/sim_sql.h \
	t/sim/sim_store.c t/sim/sim_store.h

if HAVE_CMOCKA
check_PROGRAMS += t/00-unit-sim_check t/00-unit-sim_world
t_00_unit_sim_check_SOURCES = t/unit/sim_check.c
t_00_unit_sim_check_LDADD = t/sim/libsim.a $(TEST_LIBS)
t_00_unit_sim_world_SOURCES = t/unit/sim_world.c
t_00_unit_sim_world_LDADD = t/sim/libsim.a $(TEST_LIBS)
endif
