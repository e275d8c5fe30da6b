#include "spec/experiment_yaml.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

using Catch::Matchers::Equals;

namespace {

const std::string kLocal = "distributed={type: local_sgd, sync_every: 4";

std::string problems(const std::string& one, const std::string& other = "name=x") {
  return problems_of({one, other});
}

}  // namespace

TEST_CASE("distributed: valid options have no problems", "[spec]") {
  for (const char* options :
       {"{type: ddp}", "{type: zero1}", "{type: local_sgd, sync_every: 1}", "{compression: bf16}",
        "{type: zero1, compression: fp16}", "{compression: powersgd, powersgd_rank: 4}",
        "{find_unused_parameters: true}"}) {
    INFO(options);
    CHECK_THAT(problems(std::string("distributed=") + options), Equals(""));
  }
  CHECK_THAT(problems("trainer.sync_batchnorm=true"), Equals(""));
  CHECK_THAT(problems(kLocal + "}", "trainer.swa={start_epoch: 1}"), Equals(""));
}

TEST_CASE("local_sgd: requires sync_every, which no other type accepts", "[spec]") {
  CHECK_THAT(problems("distributed.type=local_sgd"), Contains("'local_sgd' needs 'sync_every'"));
  CHECK_THAT(problems("distributed.sync_every=4"),
             Contains("'sync_every' applies only to local_sgd, but the type is 'ddp'"));
  CHECK_THAT(problems("distributed={type: local_sgd, sync_every: 0}"), Contains("sync_every"));
}

TEST_CASE("local_sgd: options that need the gradients or equal weights of all ranks are errors",
          "[spec]") {
  CHECK_THAT(problems(kLocal + ", compression: bf16}"),
             Contains("'bf16' compresses gradients, but local_sgd exchanges weights"));
  CHECK_THAT(problems(kLocal + ", find_unused_parameters: true}"),
             Contains("'find_unused_parameters' has no effect with local_sgd"));
  CHECK_THAT(problems(kLocal + "}", "trainer.sync_batchnorm=true"),
             Contains("'sync_batchnorm' exchanges values within each step"));
  CHECK_THAT(problems(kLocal + "}", "trainer.ema={decay: 0.9}"),
             Contains("the weights differ between the ranks of local_sgd"));
  CHECK_THAT(problems(kLocal + "}", "trainer.swa={every_n_steps: 2}"),
             Contains("write 'every_n_steps: auto'"));
}

TEST_CASE("data_parallel: is refused on CPUs and suggests ddp", "[spec]") {
  const std::string problem = problems("distributed.type=data_parallel", "trainer.accelerator=cpu");
  CHECK_THAT(problem, Contains("'data_parallel' needs GPUs, but this run is on CPUs; "
                               "data_parallel is slower than ddp by design") &&
                          Contains("write 'type: ddp', which gives the same results faster"));
  CHECK_THAT(problems("distributed.type=data_parallel", "trainer.accelerator=gpu"),
             !Contains("'data_parallel'"));
}

TEST_CASE("data_parallel: settings that need other ranks or measure one GPU are errors", "[spec]") {
  for (const char* key : {"trainer.sync_batchnorm=true", "trainer.activation_checkpointing=auto",
                          "distributed.compression=bf16", "trainer.num_nodes=2"}) {
    INFO(key);
    CHECK_THAT(problems_of({"distributed.type=data_parallel", "trainer.accelerator=cpu", key}),
               Contains("'data_parallel' is one process without other ranks"));
  }
}

TEST_CASE("compression: conflicts with other options are reported", "[spec]") {
  CHECK_THAT(problems_of({"distributed.compression=powersgd", "trainer.precision=16-mixed",
                          "trainer.allow_slow_precision=true"}),
             Contains("of the previous step, which may have another loss scale"));
  CHECK_THAT(problems("distributed.powersgd_rank=4"),
             Contains("warning: 'powersgd_rank' has no effect: the compression is 'none'"));
}

TEST_CASE("find_unused_parameters: conflicts with activation checkpointing", "[spec]") {
  for (const char* mode : {"blocks", "auto"}) {
    INFO(mode);
    CHECK_THAT(problems("distributed.find_unused_parameters=true",
                        std::string("trainer.activation_checkpointing=") + mode),
               Contains("cannot be combined with trainer.activation_checkpointing"));
  }
}

TEST_CASE("sync_batchnorm: a TorchScript model is an error", "[spec]") {
  const std::string script =
      "model={type: torchscript, path: a.pt, sha256: "
      "0000000000000000000000000000000000000000000000000000000000000000}";
  CHECK_THAT(problems("trainer.sync_batchnorm=true", script),
             Contains("'sync_batchnorm' cannot be applied to a TorchScript model"));
}
