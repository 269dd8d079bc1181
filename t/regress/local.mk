# SPDX-License-Identifier: Apache-2.0
# Bugs that were found once: each has a scene that fails without its fix.
if HAVE_CMOCKA
REGRESS_SCENE = t/regress/scene.c t/regress/scene.h
REGRESS_LIBS = t/sim/libsim.a $(STORAGED_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += t/70-regress-unborn-topic
t_70_regress_unborn_topic_SOURCES = t/regress/unborn_topic.c $(REGRESS_SCENE)
t_70_regress_unborn_topic_LDADD = $(REGRESS_LIBS)
check_PROGRAMS += t/70-regress-slept
t_70_regress_slept_SOURCES = t/regress/slept.c $(REGRESS_SCENE)
t_70_regress_slept_LDADD = $(REGRESS_LIBS)
endif
