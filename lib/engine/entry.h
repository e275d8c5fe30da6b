#pragma once

/* The one exported entry point of libtrainctl_engine.so. The front half dlopens the library and
 * calls this; only strings and descriptors cross, so the two halves need no common C++ state. */

#define TRAINCTL_ENGINE_VERSION 1
#define TRAINCTL_ENGINE_SYMBOL "trainctl_engine_v1"

struct TrainctlEngineRequest {
  const char* run_dir; /* holds config.resolved.yaml; checkpoints/ and logs/ are written below it */
  const char* mode;    /* the kind of task.json, see spec/experiment/task.hpp; or "exchange",
                          with only store_fd, see engine/entry.cpp */
  int rank;
  int world_size;
  int local_rank;
  int local_world_size;
  int event_fd;     /* write end of the event pipe */
  int heartbeat_fd; /* memfd of one Heartbeat; -1: none */
  int store_fd;     /* rendezvous socket; -1: world size 1 */
  const volatile int*
      stop_signal; /* 0, or the number of the signal that asks for a stop; polled at every step */
  const char*
      accelerator; /* "cpu" or "gpu", as the supervisor has decided; null: as the file says */
  const char*
      group_address; /* numeric, by which other nodes reach this one; null: there are none */
};

/* Returns the contract's exit code. Never throws, never exits. */
typedef int (*TrainctlEngineRun)(const struct TrainctlEngineRequest*);
