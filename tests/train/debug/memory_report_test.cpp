#include "train/debug/memory_report.hpp"

#include "support/catch.hpp"

using namespace trainctl;

namespace {

constexpr const char* kOnCpu =
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)";
constexpr const char* kOnGpu =
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 80.00 GiB of "
    "which 1.50 GiB is free.";

}  // namespace

TEST_CASE("out of memory: the size is parsed from the messages of the CPU and CUDA allocators") {
  CHECK(train::size_after(kOnCpu, "tried to allocate") == 8192.0);
  CHECK(train::size_after(kOnGpu, "tried to allocate") == 20480.0);
  CHECK(train::size_after(kOnGpu, "total capacity of") == 81920.0);
  for (const char* nothing :
       {"", "tried to allocate", "tried to allocate ", "tried to allocate x", "tried to allocate 5",
        "tried to allocate 5 cakes", "tried to allocate -5 bytes", "tried to allocate 1e999 GiB"})
    CHECK_FALSE(train::size_after(nothing, "tried to allocate").has_value());
}

TEST_CASE(
    "out of memory: the batch size that fits depends on free GPU memory, not only on capacity") {
  train::MemoryUse use{
      .cause = kOnGpu, .batch = 100, .before = 1024, .peak = 2048, .now = 2048, .free = 1024};
  CHECK(train::fitting_batch(use) == 8);  // 0.9 * 2 GiB of the 21 for 100 rows
  CHECK(train::has_room_for_a_row(use));
  use.free = 300;
  CHECK_FALSE(train::has_room_for_a_row(use));  // a row takes about 205 MiB
  use.free.reset();
  CHECK(train::fitting_batch(use) == 50);  // limited by the capacity
}

TEST_CASE("fitting_batch: assumes that the memory of a batch is proportional to its size") {
  // 100 rows take 1000 + 8192 MiB beyond the start, and 4000 are available: 500 MiB of the peak
  // were freed.
  train::MemoryUse use{
      .cause = kOnCpu, .batch = 100, .before = 1000, .peak = 2000, .now = 1500, .free = 3500};
  CHECK(train::fitting_batch(use) == 39);
  use.free = 1e9;
  CHECK(train::fitting_batch(use) == 50);  // at most half of the batch that did not fit
  use.free = 0;
  use.peak = use.now = 1000;
  CHECK(train::fitting_batch(use) == 0);
  use.free.reset();
  CHECK(train::fitting_batch(use) == 0);
  use = {.cause = kOnGpu, .batch = 64, .before = 2000, .peak = 78000};
  CHECK(train::fitting_batch(use) == 32);
  use.batch = 1;
  CHECK(train::fitting_batch(use) == 0);
}

TEST_CASE("memory_report: contains phase, step, batch size, memory sizes and a hint") {
  const std::string text = train::memory_report({.cause = kOnCpu,
                                                 .phase = "train",
                                                 .step = 7,
                                                 .batch = 100,
                                                 .accumulate = 2,
                                                 .before = 1000,
                                                 .peak = 2000,
                                                 .now = 2000,
                                                 .free = 3000});
  CHECK_THAT(
      text, StartsWith("out of memory in phase train after step 7, with 100 samples per batch") &&
                Contains("8589934592 bytes") && Contains("used 1000 MiB before") &&
                Contains("at most 2.0 GiB later") && Contains("2.9 GiB are free") &&
                Contains("loader.batch_size=39") && Contains("trainer.accumulate_grad_batches=6") &&
                Contains("activation_checkpointing=blocks"));
  CHECK_THAT(text, !Contains("largest activations"));
  const std::string little = train::memory_report({.cause = "std::bad_alloc", .batch = 1});
  CHECK_THAT(little, Contains("lower loader.batch_size") && !Contains("would fit"));
}

TEST_CASE("memory_report: lists the largest activations if they are known") {
  const std::string text =
      train::memory_report({.cause = kOnCpu,
                            .batch = 100,
                            .largest = {{"conv1", "conv2d", {100, 64, 112, 112}, "float32", 306.25},
                                        {"after conv1", "relu", {100, 64}, "bfloat16", 2048}}});
  CHECK_THAT(text, Contains("; the largest activations: conv1 (conv2d) with [100, 64, "
                            "112, 112] float32, 306 MiB; after conv1 (relu) with [100, 64] "
                            "bfloat16, 2.0 GiB"));
}

TEST_CASE("has_room_for_a_row: a row fits if its memory is less than half of the free memory") {
  train::MemoryUse use{.cause = kOnCpu, .batch = 100, .free = 1000};  // 82 MiB per row
  CHECK(train::has_room_for_a_row(use));
  use.free = 150;
  CHECK_FALSE(train::has_room_for_a_row(use));
  use.free.reset();  // a GPU: its allocator reports what does not fit
  CHECK(train::has_room_for_a_row(use));
  CHECK(train::has_room_for_a_row({.cause = "std::bad_alloc", .batch = 4, .free = 1}));
}
