# SPDX-License-Identifier: Apache-2.0
# The simulator: the world in a library of its own, so that its tests need no node.
noinst_LIBRARIES += t/sim/libsim.a
t_sim_libsim_a_SOURCES = \
	t/sim/history.c t/sim/history.h \
	t/sim/faults.h \
	t/sim/fork_check.c \
	t/sim/sim.c t/sim/sim.h \
	t/sim/sim_check.c t/sim/sim_check_age.c t/sim/sim_check.h \
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

SIM_SOURCES = \
	t/sim/aliens.c \
	t/sim/audit.c \
	t/sim/calls.c t/sim/calls.h \
	t/sim/forge.c \
	t/sim/forks.c \
	t/sim/load.c t/sim/load.h \
	t/sim/impostor.c \
	t/sim/lost.c \
	t/sim/main.c \
	t/sim/nemesis.c \
	t/sim/older.c \
	t/sim/nodes.c t/sim/nodes.h \
	t/sim/readers.c \
	t/sim/rot.c \
	t/sim/run.c t/sim/run.h
check_PROGRAMS += t/sim/sim
t_sim_sim_SOURCES = $(SIM_SOURCES)
t_sim_sim_LDADD = t/sim/libsim.a $(STORAGED_LIBS)

# The same with the planted bugs compiled in (storaged/planted.h).
check_LIBRARIES = t/sim/libplanted.a
t_sim_libplanted_a_SOURCES = $(storaged_libstoraged_a_SOURCES)
t_sim_libplanted_a_CPPFLAGS = $(AM_CPPFLAGS) -DPICO_PLANTED_BUGS=1
check_PROGRAMS += t/sim/sim-planted
t_sim_sim_planted_SOURCES = $(SIM_SOURCES)
t_sim_sim_planted_CPPFLAGS = $(AM_CPPFLAGS) -DPICO_PLANTED_BUGS=1
t_sim_sim_planted_LDADD = t/sim/libsim.a t/sim/libplanted.a $(STORAGED_LIBS)

EXTRA_DIST += t/sim/README t/sim/coverage t/30-sim-short.t t/30-sim-determinism.t t/30-sim-planted.t

SEEDS = 1000
.PHONY: sim sim-built sim-coverage check-names
check-names:
	@echo $(check_PROGRAMS)
sim-built: $(BUILT_SOURCES)
	@$(MAKE) t/sim/sim
sim: sim-built
	t/sim/sim --seeds 1..$(SEEDS) --jobs $$(nproc)
sim-coverage:
	$(srcdir)/t/sim/coverage $(srcdir) $(SEEDS)
