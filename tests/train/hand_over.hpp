#pragma once

#include "base/json_archive.hpp"
#include "support/catch.hpp"
#include "train/fake_run.hpp"

// Transfers the values of one object to another, like a checkpoint.

template <class Part>
void hand_over_values(Part& from, Part& to) {
  trainctl::recall(to, trainctl::Json::parse(trainctl::to_line(trainctl::remember(from))));
}

template <class Part>
void hand_over_state(const Part& from, const Part& to) {
  const torch::NoGradGuard guard;
  const auto given = from.state();
  const auto taken = to.state();
  REQUIRE(given.size() == taken.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    CHECK(given[i].name == taken[i].name);
    taken[i].tensor.copy_(given[i].tensor);
  }
}

inline void set_weights(FakeModel& model, double value) {
  const torch::NoGradGuard guard;
  model.weight.fill_(value);
  model.bias.fill_(-value);
  model.batches.fill_(static_cast<std::int64_t>(value * 8));
}

inline trainctl::train::Session session_of(FakeRun& run) {
  return {.model = run.model,
          .loss = run.loss,
          .optimizer = run.optimizer,
          .scheduler = run.scheduler,
          .stopper = &run.stopper,
          .metrics = run.metrics,
          .train = *run.train,
          .batch_size = run.sizes.batch,
          .communicator = *run.communicator,
          .clock = *run.clock,
          .emit = [&run](const trainctl::events::Event& event) { run.events.push_back(event); },
          .heartbeat = &run.heartbeat,
          .run_dir = run.folder.path()};
}
