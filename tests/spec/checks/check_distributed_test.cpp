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

TEST_CASE("every way to spread a run that can be is sound", "[spec]") {
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

TEST_CASE("local SGD says after how many steps its ranks meet, and nothing else does", "[spec]") {
  CHECK_THAT(problems("distributed.type=local_sgd"), Contains("'local_sgd' needs 'sync_every'"));
  CHECK_THAT(problems("distributed.sync_every=4"),
             Contains("'sync_every' applies only to local_sgd, but the type is 'ddp'"));
  CHECK_THAT(problems("distributed={type: local_sgd, sync_every: 0}"), Contains("sync_every"));
}

TEST_CASE("what needs the gradients of all ranks is no part of local SGD", "[spec]") {
  CHECK_THAT(problems(kLocal + ", compression: bf16}"),
             Contains("'bf16' compresses gradients, but local_sgd exchanges weights"));
  CHECK_THAT(problems(kLocal + ", find_unused_parameters: true}"),
             Contains("local_sgd exchanges no gradient"));
  CHECK_THAT(problems(kLocal + "}", "trainer.sync_batchnorm=true"),
             Contains("whose ranks step independently"));
  CHECK_THAT(problems(kLocal + "}", "trainer.ema={decay: 0.9}"),
             Contains("those of the ranks of local_sgd differ"));
  CHECK_THAT(problems(kLocal + "}", "trainer.swa={every_n_steps: 2}"),
             Contains("write 'every_n_steps: auto'"));
}

TEST_CASE("threads of one process are no way to train", "[spec]") {
  CHECK_THAT(problems("distributed.type=data_parallel"),
             Contains("'data_parallel' is not supported") && Contains("write 'type: ddp'"));
}

TEST_CASE("compression that conflicts with another option is reported", "[spec]") {
  CHECK_THAT(problems_of({"distributed.compression=powersgd", "trainer.precision=16-mixed",
                          "trainer.allow_slow_precision=true"}),
             Contains("16-mixed may use another loss scale"));
  CHECK_THAT(problems("distributed.powersgd_rank=4"),
             Contains("warning: it has no effect: the compression is 'none'"));
}

TEST_CASE("unused parameters are not looked for where blocks are computed again", "[spec]") {
  for (const char* mode : {"blocks", "auto"}) {
    INFO(mode);
    CHECK_THAT(problems("distributed.find_unused_parameters=true",
                        std::string("trainer.activation_checkpointing=") + mode),
               Contains("look unused before the backward pass"));
  }
}

TEST_CASE("a scripted model cannot share its statistics", "[spec]") {
  const std::string script =
      "model={type: torchscript, path: a.pt, sha256: "
      "0000000000000000000000000000000000000000000000000000000000000000}";
  CHECK_THAT(problems("trainer.sync_batchnorm=true", script),
             Contains("a TorchScript model normalizes on each rank"));
}
