#include "train/measure/backends.hpp"

#include "support/catch.hpp"

#include <ATen/Context.h>

using namespace trainctl;

namespace {

constexpr train::BackendDevice kCpu;
constexpr train::BackendDevice kOldGpu{.on_gpu = true, .has_tf32 = false};
constexpr train::BackendDevice kGpu{.on_gpu = true, .has_tf32 = true};

spec::Trainer trainer_with(spec::MatmulPrecision precision, bool deterministic = false) {
  spec::Trainer trainer;
  trainer.float32_matmul_precision = precision;
  trainer.deterministic = deterministic;
  return trainer;
}

std::string precision_on(const train::BackendDevice& device, spec::MatmulPrecision precision,
                         bool deterministic = false) {
  return choose_backends(trainer_with(precision, deterministic), device).fp32_precision;
}

/// Applies the settings of a GPU; libtorch keeps them in a process without one, too.
void apply(const spec::Trainer& trainer) {
  apply_backends(trainer, choose_backends(trainer, kGpu));
}

}  // namespace

TEST_CASE("backends: one key decides the precision of float32 products on each device") {
  using enum spec::MatmulPrecision;
  CHECK(precision_on(kGpu, highest) == "ieee");
  CHECK(precision_on(kGpu, high) == "tf32");
  CHECK(precision_on(kGpu, medium) == "tf32");
  CHECK(precision_on(kOldGpu, high) == "ieee");
  CHECK(precision_on(kCpu, highest) == "ieee");
  CHECK(precision_on(kCpu, high) == "tf32");
  CHECK(precision_on(kCpu, medium) == "bf16");
}

TEST_CASE("backends: deterministic mode computes in IEEE float32 and measures no kernels") {
  const spec::Trainer trainer = trainer_with(spec::MatmulPrecision::high, true);
  const train::BackendSettings settings = choose_backends(trainer, kGpu);
  CHECK(settings.fp32_precision == "ieee");
  CHECK(settings.fp32_precision_why == "deterministic");
  CHECK_FALSE(settings.benchmark);
  CHECK(settings.benchmark_why == "deterministic");
}

TEST_CASE("backends: matrix products, convolutions and RNNs on a GPU have the same precision") {
  const at::Context& context = at::globalContext();
  for (const bool deterministic : {false, true}) {
    for (const auto precision : {spec::MatmulPrecision::medium, spec::MatmulPrecision::high,
                                 spec::MatmulPrecision::highest}) {
      apply(trainer_with(precision, deterministic));
      const bool exact = deterministic || precision == spec::MatmulPrecision::highest;
      CAPTURE(deterministic, exact);
      for (const at::Float32Op op :
           {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN}) {
        CHECK(context.float32Precision(at::Float32Backend::CUDA, op) ==
              (exact ? at::Float32Precision::IEEE : at::Float32Precision::TF32));
      }
      // libtorch's kernels read these, which throw if the older flags disagree with the new ones.
      CHECK(context.allowTF32CuBLAS() == !exact);
      CHECK(context.allowTF32CuDNN() == !exact);
      CHECK(context.allowTF32CuDNN(at::Float32Op::CONV) == !exact);
      CHECK_NOTHROW(context.float32MatmulPrecision());
      CHECK(context.deterministicAlgorithms() == deterministic);
    }
  }
  apply(spec::Trainer());
}

TEST_CASE("benchmark: auto is on for GPUs, and a written value is used there") {
  spec::Trainer trainer;
  CHECK(choose_backends(trainer, kGpu).benchmark);
  CHECK_FALSE(choose_backends(trainer, kCpu).benchmark);
  trainer.benchmark.value = false;
  CHECK_FALSE(choose_backends(trainer, kGpu).benchmark);
  CHECK(choose_backends(trainer, kGpu).benchmark_why == "configured");
  trainer.benchmark.value = true;
  CHECK(choose_backends(trainer, kOldGpu).benchmark);
  CHECK_FALSE(choose_backends(trainer, kCpu).benchmark);
}

TEST_CASE("benchmark: steps of shapes that occur rarely are not measured") {
  apply(spec::Trainer());
  CHECK(at::globalContext().benchmarkCuDNN());
  {
    const train::BenchmarkOff off;
    CHECK_FALSE(at::globalContext().benchmarkCuDNN());
  }
  CHECK(at::globalContext().benchmarkCuDNN());
  at::globalContext().setBenchmarkCuDNN(false);
}
