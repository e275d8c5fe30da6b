#pragma once

/* The only exported entry point of libtrainctl_engine.so. The command-line program loads the
 * library with dlopen and calls it; only strings and file descriptors are passed, so that the two
 * share no C++ objects. */

#define TRAINCTL_ENGINE_VERSION 1
#define TRAINCTL_ENGINE_SYMBOL "trainctl_engine_v1"

struct TrainctlEngineRequest {
  const char* run_dir; /* with config.resolved.yaml; checkpoints/ and logs/ are written there */
  const char* mode;    /* the kind of task.json, see spec/experiment/job.hpp; or "exchange",
                          with only store_fd, see engine/entry.cpp */
  int rank;
  int world_size;
  int local_rank;
  int local_world_size;
  int event_fd;                    /* write end of the event pipe */
  int heartbeat_fd;                /* memfd of one Heartbeat; -1: none */
  int store_fd;                    /* rendezvous socket; -1: world size 1 */
  const volatile int* stop_signal; /* 0, or the signal that requests a stop; polled at every step */
  const char* accelerator;   /* "cpu" or "gpu", chosen by the supervisor; null: as configured */
  const char* group_address; /* numeric address of this node for other nodes; null: one node */
};

/* Returns an exit code of the program. Never throws, never exits the process. */
typedef int (*TrainctlEngineRun)(const struct TrainctlEngineRequest*);
