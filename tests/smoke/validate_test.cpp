#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/program.hpp"
#include "support/temp_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

const std::string kConfigs = TRAINCTL_SOURCE_DIR "/configs/";

std::string write(const TempFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return (folder / name).string();
}

}  // namespace

TEST_CASE("recorded steps that are insisted on end a run on a CPU before it starts", "[smoke]") {
  for (const std::string verb : {"validate", "run"}) {
    const ProgramRun run = run_program({verb, kConfigs + "quickstart.yaml",
                                        "trainer.accelerator=cpu", "trainer.cuda_graphs=true"});
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains("'cuda_graphs' is true, but the run is on a CPU") &&
                            Contains("cuda_graphs: auto"));
  }
}

TEST_CASE("recorded steps are no matter of what does not train", "[smoke]") {
  const ProgramRun run = run_program({"data", "stats", kConfigs + "quickstart.yaml",
                                      "trainer.accelerator=cpu", "trainer.cuda_graphs=true"});
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.err, !Contains("cuda_graphs"));
}

TEST_CASE("validate finds twelve planted mistakes in one pass, each on its line", "[smoke]") {
  const ProgramRun run =
      run_program({"validate", "mistakes.yaml"}, {.folder = golden_folder() / "cli"});
  CHECK(run.exit_code == 2);
  CHECK(run.out.empty());
  check_golden("cli/mistakes.txt", run.err);

  const ProgramRun as_json =
      run_program({"validate", "mistakes.yaml", "--json"}, {.folder = golden_folder() / "cli"});
  CHECK(as_json.exit_code == 2);
  const trainctl::Json document = as_json.json();
  CHECK(document["schema"] == "trainctl.validate/1");
  std::vector<int> lines;
  for (const trainctl::Json& problem : document["files"][0]["errors"])
    lines.push_back(problem["line"]);
  CHECK(lines == std::vector{2, 4, 7, 9, 10, 11, 14, 15, 16, 19, 22, 23});
}

TEST_CASE("the configs that come with trainctl are fine", "[smoke]") {
  for (const char* name : {"quickstart.yaml"}) {
    const ProgramRun run = run_program({"validate", kConfigs + name});
    CAPTURE(name, run.err);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.out, EndsWith("quickstart.yaml: OK\n"));
    CHECK(run.err.empty());
  }
}

TEST_CASE("the MNIST configs are fine where the data is", "[smoke]") {
  if (std::getenv("TRAINCTL_DATA") == nullptr) skip("TRAINCTL_DATA is not set");
  const ProgramRun run =
      run_program({"check", kConfigs + "mnist/ffn.yaml", kConfigs + "mnist/lenet.yaml"});
  CAPTURE(run.err);
  CHECK(run.exit_code == 0);
  CHECK(std::ranges::count(run.out, '\n') == 2);
}

TEST_CASE("validate takes several files and lays the overrides over each", "[smoke]") {
  const TempFolder folder;
  const std::string broken = write(folder, "broken.yaml", "model: mlp\n");
  const ProgramRun run =
      run_program({"validate", kConfigs + "quickstart.yaml", broken, "optimizer=sgd", "--json"});
  CHECK(run.exit_code == 2);
  const trainctl::Json document = run.json();
  CHECK(document["ok"] == false);
  CHECK(document["files"][0]["ok"] == true);
  CHECK(document["files"][1]["ok"] == false);
  CHECK(document["files"][1]["errors"].size() ==
        1);  // only the data set: the override brought the optimizer
}

TEST_CASE("an override's mistake is shown in the override", "[smoke]") {
  const ProgramRun run =
      run_program({"validate", kConfigs + "quickstart.yaml", "trainer.max_epoch=3"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Contains("trainer.max_epoch=3") && Contains("did you mean 'max_epochs'?"));
}

TEST_CASE("a file that cannot be read is an error with its name", "[smoke]") {
  const ProgramRun run = run_program({"validate", "no-such.yaml"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, StartsWith("error: ") && Contains("no-such.yaml"));
}

TEST_CASE("what depends on the data is told in the same pass as every other error", "[smoke]") {
  const TempFolder folder;
  const std::string none = (folder / "none").string();
  const ProgramRun run =
      run_program({"validate", kConfigs + "quickstart.yaml", "optimizer.learning_rate=1",
                   "loader.batch_size=100000", "loss={type: cross_entropy, weight: [1, 2]}",
                   "dataset.val={type: mnist, root: " + none + "}"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Contains("unknown key 'learning_rate'") &&
                          Contains("a batch of 100,000 is larger") &&
                          Contains("the loss has 2 weights") && Contains("does not exist") &&
                          Contains("3 errors and 2 warnings in"));
}

TEST_CASE("a mistake in one split does not hide what the other lacks", "[smoke]") {
  const TempFolder folder;
  const std::string none = (folder / "none").string();
  const ProgramRun run =
      run_program({"validate", kConfigs + "quickstart.yaml", "dataset.train.splt=train",
                   "dataset.val={type: mnist, root: " + none + ", transforms: [normalise]}"});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Contains("unknown key 'splt'") && Contains("unknown transform 'normalise'") &&
                          Contains("does not exist") && Contains("3 errors in"));
}

TEST_CASE("transforms that do not fit are an error of the config", "[smoke]") {
  const auto with = [](const std::string& transforms) {
    return run_program({"validate", kConfigs + "quickstart.yaml",
                        "dataset.train.transforms=" + transforms,
                        "dataset.val.transforms=" + transforms});
  };
  const std::string normalize = "{type: normalize, mean: [0.1], std: [0.3]}";
  CHECK(with("[" + normalize + ", random_horizontal_flip]").exit_code == 2);
  CHECK(with("[{type: random_crop, size: 29}]").exit_code == 2);
  CHECK(with("[{type: normalize, mean: [1, 1, 1], std: [1, 1, 1]}]").exit_code == 2);
  const ProgramRun small = run_program({"validate", kConfigs + "quickstart.yaml", "model=lenet",
                                        "dataset.train.transforms=[{type: random_crop, size: 8}]",
                                        "dataset.val.transforms=[{type: random_crop, size: 8}]"});
  CHECK(small.exit_code == 2);
  CHECK_THAT(small.err, Contains("the images are 8x8: lenet needs 28x28 or 32x32"));
}

TEST_CASE("data that cannot be read ends with 9, a config that does not fit its data with 2",
          "[smoke]") {
  const TempFolder folder;
  const std::string quickstart = kConfigs + "quickstart.yaml";
  const ProgramRun missing = run_program(
      {"validate", quickstart,
       "dataset.train={type: mnist, root: " + (folder / "none").string() + "}", "~dataset.val"});
  CHECK(missing.exit_code == 9);
  CHECK_THAT(missing.err, Contains("does not exist"));
  const ProgramRun large =
      run_program({"validate", quickstart, "loader.batch_size=100000", "loader.drop_last=true"});
  CHECK(large.exit_code == 2);
  CHECK_THAT(large.err,
             Contains("a batch of 100,000 is larger than the training data: 60,000 samples"));
}

TEST_CASE("a file whose path holds an '=' is a file", "[smoke]") {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "lr=1");
  const ProgramRun there =
      run_program({"validate", write(folder, "lr=1/a=b.yaml", "model: mlp\n")});
  CHECK_THAT(there.err, Contains("a=b.yaml:1:1: error: the experiment needs 'dataset'"));
  write(folder, "c=d.yaml", "model: mlp\n");
  CHECK_THAT(run_program({"validate", "c=d.yaml"}, {.folder = folder.path()}).err,
             Contains("c=d.yaml:1:1: error"));
  CHECK_THAT(run_program({"validate", "no/lr=1.yaml"}).err, Contains("cannot read no/lr=1.yaml"));
}

TEST_CASE("the flag -v tells the files that were read and the data that was found", "[smoke]") {
  const std::string quickstart = kConfigs + "quickstart.yaml";
  const ProgramRun run = run_program({"validate", quickstart, "-v"});
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.err, Contains("quickstart.yaml: ") && Contains(" bytes") &&
                          Contains("dataset.train: 60000 samples of 28x28x1, 10 classes"));
  CHECK(run_program({"validate", quickstart}).err.empty());
  CHECK(run_program({"validate", quickstart, "-v", "--quiet"}).err.empty());
}

namespace {

std::string table_config(const TempFolder& folder) {
  write(folder, "train.csv", "a,b,kind,price\n1,2,x,0.5\n3,4,y,1.5\n5,6,x,2.5\n");
  write(folder, "val.csv", "b,a,kind,price\n2,1,x,0.5\n");
  return write(folder, "table.yaml",
               "dataset:\n"
               "  train: {type: csv, path: train.csv, label: kind, features: [a, b]}\n"
               "loader: {batch_size: 2}\n"
               "model: mlp\n"
               "optimizer: adam\n"
               "trainer: {accelerator: cpu}\n");
}

}  // namespace

TEST_CASE("what a run cannot learn from rows of a table is told with its place", "[smoke]") {
  const TempFolder folder;
  const std::string config = table_config(folder);
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"validate", config});
    const ProgramRun run = run_program(words);
    CAPTURE(run.err);
    CHECK(run.exit_code == (run.err.empty() ? 0 : 2));
    return run.err;
  };
  CHECK(with({}).empty());
  CHECK_THAT(with({"model=lenet"}), Contains("model=lenet") && Contains("takes images, but"));
  CHECK_THAT(with({"dataset.train.label=price", "+dataset.train.label_type=number",
                   "+metrics=[accuracy]"}),
             Contains("table.yaml:2:") && Contains("the loss 'cross_entropy' takes classes") &&
                 Contains("the metric 'accuracy' takes classes"));
  CHECK_THAT(with({"+dataset.train.batch_transforms=[mixup]"}),
             Contains("batch_transforms mix images, and the data set has none"));
  CHECK_THAT(with({"+dataset.train.transforms=[random_horizontal_flip]"}),
             Contains("have no image"));
  const std::string val = "{type: csv, path: " + (folder / "val.csv").string() + ", label: kind, ";
  CHECK_THAT(with({"+dataset.val=" + val + "features: [b, a], classes: [x, y]}"}),
             Contains("its feature 0 is 'b', that of dataset.train 'a'"));
  CHECK(with({"+dataset.val=" + val + "features: [a, b], classes: [x, y]}"}).empty());
  CHECK_THAT(with({"+dataset.val=" + val + "features: [a, b], classes: [x]}"}),
             Contains("with 1 class, those of dataset.train") && Contains("'statistics_from'"));
}

TEST_CASE("a model of images or rows takes no tokens", "[smoke]") {
  const TempFolder folder;
  write(folder, "tokens.bin", std::string(400, 'a'));
  const std::string config =
      write(folder, "tokens.yaml",
            "dataset:\n"
            "  train: {type: tokens, path: tokens.bin, sequence_length: 8, vocab_size: 30000}\n"
            "loader: {batch_size: 2}\n"
            "model: mlp\n"
            "optimizer: adam\n"
            "trainer: {accelerator: cpu, max_epochs: 1}\n");
  const ProgramRun run = run_program({"validate", config});
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Contains("tokens.yaml:4:8: error: the model 'mlp' takes images or rows of "
                               "numbers, but the samples of dataset.train are tokens") &&
                          Contains("choose model gpt"));
  CHECK(run_program({"data", "hash", config}).exit_code == 0);
}

TEST_CASE("validate looks for the weights, and into them", "[smoke]") {
  const std::string config = kConfigs + "quickstart.yaml";
  const auto check = [&](const std::string& weights) {
    return run_program({"validate", config, "weights=" + weights},
                       {.folder = golden_folder() / "torch"});
  };
  CHECK(check("module.pth").exit_code == 0);
  const ProgramRun missing = check("modul.pth");
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err,
             Contains("modul.pth does not exist") && Contains("did you mean 'module.pth'?"));
  const ProgramRun refused = check("whole_model.pth");
  CHECK(refused.exit_code == 10);
  CHECK_THAT(refused.err, Contains("asks for torch.nn.modules.linear.Linear"));
  CHECK(check("weights.json").exit_code == 10);
  CHECK(check("https://example.org/w.pth").exit_code == 2);
  CHECK(check(".").exit_code == 2);
  CHECK(check("{path: module.pth, sha256: abc}").exit_code == 2);
}

TEST_CASE("every message is bounded, in text and JSON", "[smoke]") {
  const TempFolder folder;
  const std::string long_value(100'000, 'v');
  const std::string config = write(folder, "long.yaml",
                                   "model: " + long_value + "\n" + long_value +
                                       ": 1\noptimizer: {type: adam, lr: " + long_value +
                                       "}\nseed: '" + long_value + "'\n");
  const std::vector<std::vector<std::string>> commands{
      {"validate", config},
      {"validate", config, "--json"},
      {"run", config},
      {"show-config", config},
      {"validate", kConfigs + "quickstart.yaml", "model.hidden=" + long_value},
      {"validate", kConfigs + "quickstart.yaml", "model." + long_value + "=1"},
      {"validate", kConfigs + "quickstart.yaml", long_value, "--json"},
      {"validate", long_value},
      {"explain", long_value},
      {"schema", long_value, "--json"},
      {"list", long_value},
      {long_value},
      {"version", "--" + long_value},
      {"run", kConfigs + "quickstart.yaml", "--max-restarts", long_value},
      {"checkpoint", "inspect", long_value},
      {"compare", long_value, long_value},
  };
  for (const std::vector<std::string>& words : commands) {
    const ProgramRun run = run_program(words);
    CAPTURE(words.at(0).substr(0, 100), run.exit_code);
    CHECK(run.exit_code == (words.at(0) == "checkpoint" ? 10 : 2));
    CHECK(run.out.size() + run.err.size() < 20'000);
    CHECK_THAT(run.out + run.err, !Contains(std::string(3000, 'v')));
    CHECK_THAT(run.out + run.err, Contains("characters)") || !Contains(std::string(1500, 'v')));
  }
}

TEST_CASE("a literal secret and a password in a URL are covered wherever they are quoted",
          "[smoke]") {
  const TempFolder folder;
  const std::string config =
      write(folder, "secret.yaml",
            "dataset:\n  train: {type: image_folder, root: \"s3://user:hunter2@bucket/x\"}\n"
            "  remote:\n    access_key: hunter2\n    secret_key: >\n      hunter2\n"
            "model: mlp\noptimizer: sgd\n");
  for (const char* verb : {"validate", "show-config", "run", "plan"}) {
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{}, {"--json"}, {"+dataset.remote.session_token=hunter2"}}) {
      std::vector<std::string> words{verb, config};
      words.insert(words.end(), more.begin(), more.end());
      const ProgramRun run = run_program(words);
      CAPTURE(words);
      CHECK(run.exit_code == 2);
      CHECK_THAT(run.out + run.err, !Contains("hunter2"));
    }
  }
  const ProgramRun shown = run_program({"show-config", kConfigs + "quickstart.yaml",
                                        "dataset.train.root=https://me:hunter2@host/x"});
  CHECK_THAT(shown.out + shown.err, !Contains("hunter2"));
}

TEST_CASE("validate: a literal secret is never quoted, however it is written", "[smoke]") {
  const TempFolder folder;
  const std::string begin =
      "model: mlp\noptimizer: sgd\ndataset:\n  train: {type: image_folder, root: s3://b/x}\n";
  for (const std::string remote :
       {"  remote: {access_key: \"${secret:A}hunter2\", secret_key: \"${secret:B}\"}\n",
        "  remote: {endpoint: \"http://h\", access_key:\n   hunter2, nonsense: 1}\n",
        "  remote:\n    ? access_key\n    : hunter2\n    ? nonsense\n    : 1\n",
        "  remote:\n    access_key:\n    - hunter2\n    - hunter2\n",
        "  remote: {\"access\\u005fkey\": hunter2, nonsense: 1}\n",
        "  remote:\n    access_key: hun${hunter2\n"}) {
    const ProgramRun run = run_program({"validate", write(folder, "a.yaml", begin + remote)});
    CAPTURE(remote, run.err);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains("error: ") && !Contains("hunter2"));
  }
}

TEST_CASE("an input that is no regular file on a disk is refused at once", "[smoke]") {
  const TempFolder folder;
  for (const std::string input : {"/dev/zero", "/proc/kmsg", "/dev/tty", "pipe"}) {
    const std::string path = input == "pipe" ? (folder / "pipe").string() : input;
    if (input == "pipe") REQUIRE(std::system(("mkfifo " + path).c_str()) == 0);
    const std::string config = write(folder, "a.yaml", "extends: " + path + "\nmodel: mlp\n");
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"validate", config},
          {"validate", path},
          {"validate", kConfigs + "quickstart.yaml",
           "dataset.train={type: csv, path: " + path + ", label: y}"},
          {"validate", kConfigs + "quickstart.yaml",
           "dataset.train={type: image_list, path: " + path + "}"},
          {"validate", kConfigs + "quickstart.yaml",
           "dataset.train={type: npy, path: " + path + "}"},
          {"checkpoint", "inspect", path},
          {"report", path}}) {
      const ProgramRun run = run_program(words, {.timeout_s = 60});
      CAPTURE(words);
      CHECK_FALSE(run.timed_out);
      CHECK(run.exit_code != 0);
    }
  }
}
