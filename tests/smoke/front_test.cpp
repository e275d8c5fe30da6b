#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/program.hpp"
#include "support/temp_folder.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct FlagOfVerb {
  std::string verb;  // "data hash"
  std::string flag;  // "--workers"
};

std::string without(std::string text, const std::string& part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part))
    text.erase(at, part.size());
  return text;
}

// Every flag of every verb, read from the completion script.
std::vector<FlagOfVerb> flags() {
  std::vector<FlagOfVerb> found;
  for (const std::string& line : golden::lines_of(run_program({"completion", "fish"}).out)) {
    const std::size_t first = line.find("-n '");
    const std::size_t last = line.find("' -l ");
    if (first == std::string::npos || last == std::string::npos) continue;
    const std::string verb = without(
        without(without(line.substr(first + 4, last - first - 4), "__fish_seen_subcommand_from "),
                "; and"),
        " check");  // the alias of validate
    const std::string flag = line.substr(last + 5);
    found.push_back({verb, "--" + flag.substr(0, flag.find(' '))});
  }
  return found;
}

// The verbs in the order of --help, "data" before "data hash".
std::vector<std::string> verbs() {
  std::vector<std::string> names;
  for (const FlagOfVerb& one : flags()) {
    if (names.empty() || names.back() != one.verb) names.push_back(one.verb);
  }
  return names;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// What a shell command prints.
std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  ::pclose(pipe);
  return text;
}

}  // namespace

TEST_CASE("without a verb trainctl prints its help", "[smoke]") {
  const ProgramRun run = run_program({});
  CHECK(run.exit_code == 0);
  CHECK(run.out == run_program({"--help"}).out);
  check_golden("cli/help.txt", run.out);
}

TEST_CASE("each verb has a help of its own", "[smoke]") {
  const std::vector<std::string> names = verbs();
  REQUIRE(names.size() >= 4);
  for (const std::string& verb : names) {
    std::vector<std::string> arguments = words_of(verb);
    arguments.emplace_back("--help");
    const ProgramRun run = run_program(arguments);
    CAPTURE(verb, run.err);
    CHECK(run.exit_code == 0);
    std::string file = verb;
    std::ranges::replace(file, ' ', '_');
    check_golden("cli/help_" + file + ".txt", run.out);
  }
}

TEST_CASE("a wrong command line ends with 2 and names what was meant", "[smoke]") {
  const auto fails = [](const std::vector<std::string>& arguments, const std::string& message) {
    const ProgramRun run = run_program(arguments);
    CAPTURE(arguments);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, StartsWith("error: ") && Contains(message));
  };
  fails({"validat"}, "unknown verb 'validat'; did you mean 'validate'?");
  fails({"version", "--jsn"}, "unknown flag '--jsn'; did you mean '--json'?");
  fails({"version", "now"}, "unexpected argument 'now'");
  fails({"version", "--color", "blue"}, "'blue' is not one of auto, always, never");
  fails({"completion"}, "shell");
  fails({"completion", "tcsh"}, "unknown shell 'tcsh'");
  fails({"list", "optimiser"}, "did you mean 'optimizer'?");
  fails({"--config", "x.yaml", "validate"},
        "the flag '--config' belongs to 'validate': write it after the verb");
  fails({"validate", "x.yaml", "++"}, "'++' has no key");
}

TEST_CASE("with --json an error is a document on stdout", "[smoke]") {
  const ProgramRun run = run_program({"version", "--json", "--bogus"});
  CHECK(run.exit_code == 2);
  CHECK(run.err.empty());
  const trainctl::Json document = run.json();
  CHECK(document["schema"] == "trainctl.error/1");
  CHECK(document["exit_code"] == 2);
  CHECK(document["errors"].is_array());
}

TEST_CASE("a control sequence in an argument does not reach the terminal", "[smoke]") {
  const ProgramRun run = run_program({"\x1b[2J"});
  CHECK(run.exit_code == 2);
  CHECK(run.err.find('\x1b') == std::string::npos);
}

TEST_CASE("version tells the commit and the libraries", "[smoke]") {
  const std::string version = run_program({"version"}).out;
  CHECK_THAT(version, StartsWith("trainctl 0."));
  CHECK_THAT(version, Contains(", SQLite 3."));
  CHECK(run_program({"--version"}).out == version.substr(0, version.find('\n') + 1));
  const trainctl::Json document = run_program({"version", "--json"}).json();
  CHECK(document["schema"] == "trainctl.version/1");
  for (const char* library : {"CLI11", "fmt", "nlohmann_json", "yaml-cpp", "SQLite"})
    CHECK_FALSE(document["libraries"][library].get<std::string>().empty());
}

TEST_CASE("list names every stage with its summary", "[smoke]") {
  check_golden("cli/list.txt", run_program({"list"}).out);
  const trainctl::Json document = run_program({"list", "optimizer", "--json"}).json();
  CHECK(document["kinds"].size() == 1);
  CHECK(document["kinds"]["optimizer"].size() == 9);
}

TEST_CASE("explain tells a key's type, default, bounds and meaning", "[smoke]") {
  std::string texts;
  for (const char* key : {"optimizer.adam.lr", "trainer.limit_train_batches", "dataset.mnist.root",
                          "early_stopping.mode", "loader.num_workers"}) {
    texts += run_program({"explain", key}).out;
  }
  check_golden("cli/explain.txt", texts);
  const trainctl::Json document = run_program({"explain", "optimizer.adam.lr", "--json"}).json();
  CHECK(document["schema"] == "trainctl.explain/1");
  const ProgramRun unknown = run_program({"explain", "optimizer.adam.lrr"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, StartsWith("error: ") && Contains("optimizer.adam.lr"));
}

TEST_CASE("schema prints the JSON Schema of the file, a kind or a stage", "[smoke]") {
  check_golden("cli/schema_sgd.json", [] {
    trainctl::Json one = run_program({"schema", "optimizer/sgd"}).json();
    one.erase("$defs");
    return trainctl::to_pretty(one) + "\n";
  }());
  const trainctl::Json file = run_program({"schema"}).json();
  CHECK(file["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(file["additionalProperties"] == false);
  CHECK(file["properties"].contains("trainer"));
  const trainctl::Json kind = run_program({"schema", "optimizer", "--json"}).json();
  CHECK(kind["schema"] == "trainctl.schema/1");
  CHECK(kind["json_schema"]["oneOf"].size() == 9);
  CHECK_THAT(run_program({"schema", "optimizer/adan"}).err, Contains("did you mean 'adam'?"));
  CHECK_THAT(run_program({"schema", "optimizr"}).err, Contains("did you mean 'optimizer'?"));
}

TEST_CASE("show-config prints the resolved experiment with the origin of each value", "[smoke]") {
  const ProgramOptions in_configs{.folder = TRAINCTL_SOURCE_DIR "/configs"};
  check_golden(
      "cli/show_config.txt",
      run_program({"show-config", "quickstart.yaml", "trainer.max_epochs=3"}, in_configs).out);
  check_golden("cli/show_config_minimal.txt",
               run_program({"show-config", "--minimal", "quickstart.yaml"}, in_configs).out);
  check_golden("cli/show_config_full.txt",
               run_program({"show-config", "--full", "quickstart.yaml"}, in_configs).out);
  const trainctl::Json document =
      run_program({"show-config", "-c", "quickstart.yaml", "seed=7", "--json"}, in_configs).json();
  CHECK(document["schema"] == "trainctl.config/1");
  CHECK(document["config"]["seed"] == 7);
  CHECK(document["origins"]["seed"] == "override");
  CHECK(document["origins"]["loader.batch_size"] == "quickstart.yaml:16");
  CHECK(document["origins"]["loader.shuffle"] == "default");
}

TEST_CASE("show-config takes one config and says so", "[smoke]") {
  const ProgramRun two = run_program({"show-config", "a.yaml", "b.yaml"});
  CHECK(two.exit_code == 2);
  CHECK_THAT(two.err, Contains("'b.yaml' is neither an override"));
  const ProgramRun both = run_program({"show-config", "a.yaml", "--full", "--minimal"});
  CHECK(both.exit_code == 2);
}

TEST_CASE("doctor names what it looked at and what is missing", "[smoke]") {
  const ProgramRun run = run_program(
      {"doctor", "--json"},
      {.environment = {{"TRAINCTL_TORCH_ROOT", "/no/such/torch"}, {"OMP_WAIT_POLICY", "ACTIVE"}}});
  CHECK(run.exit_code == 11);
  const trainctl::Json document = run.json();
  CHECK(document["schema"] == "trainctl.doctor/1");
  CHECK(document["health"] == "broken");
  std::map<std::string, trainctl::Json> findings;
  for (const trainctl::Json& one : document["findings"]) findings[one["name"]] = one;
  for (const char* name : {"system", "cpu", "memory", "disk", "limits", "engine", "libtorch", "gpu",
                           "threads", "data", "images", "opencv", "arrow", "libcurl", "reading"}) {
    CAPTURE(name);
    CHECK(findings.contains(name));
  }
  CHECK(findings["libtorch"]["health"] == "broken");
  CHECK_THAT(findings["libtorch"]["cure"].get<std::string>(), Contains("scripts/setup"));
  CHECK(findings["threads"]["health"] == "degraded");
  CHECK_THAT(findings["images"]["found"].get<std::string>(),
             StartsWith("libjpeg-turbo ") && Contains("libpng 1.") && Contains("zlib 1."));
  CHECK_THAT(findings["reading"]["found"].get<std::string>(), StartsWith("io_uring is "));
  CHECK_THAT(findings["sweeps"]["found"].get<std::string>(), StartsWith("SQLite 3."));
  for (const char* library :
       {"SQLite", "libjpeg-turbo", "libpng", "zlib", "opencv", "arrow", "libcurl"})
    CHECK(document["libraries"].contains(library));
  CHECK(document["libraries"]["libpng"].is_string());
  const std::string text = run_program({"doctor"}).out;
  CHECK_THAT(text, StartsWith("trainctl 0.") && Contains("libtorch"));
  for (const char* library : {"opencv", "arrow", "libcurl"}) {
    const bool is_there = document["libraries"][library].is_string();
    CHECK_THAT(text, Contains(fmt::format("  {:<9} {:<13} ", is_there ? "ok" : "absent", library)));
  }
}

TEST_CASE("standard output: exit code 11 and the real cause when it cannot be written", "[smoke]") {
  const std::vector<std::pair<std::string, std::string>> outputs{
      {"> /dev/full", "No space left on device"}, {">&-", "Bad file descriptor"}};
  for (const char* words : {"list", "list --json", "--help", "--version", "schema", "version"}) {
    for (const auto& [redirection, cause] : outputs) {
      const std::string text = output_of(fmt::format("( {} {} 2>&3 {}; echo \"code $?\" >&3 ) 3>&1",
                                                     TRAINCTL_BINARY, words, redirection));
      CHECK(text == fmt::format("error: cannot write to stdout: {}\ncode 11\n", cause));
    }
  }
}

TEST_CASE("standard output: an error document that is lost is printed on stderr", "[smoke]") {
  const TempFolder folder;
  const std::string text = output_of(
      fmt::format("cd {} && {} plan --no-model --json a.yaml 2>&1 > /dev/full; echo \"code $?\"",
                  folder.path().string(), TRAINCTL_BINARY));
  CHECK_THAT(text, Contains("error: ") && Contains("a.yaml") && EndsWith("code 2\n"));
}

TEST_CASE("a deleted working directory is named and is no bug of the program", "[smoke]") {
  const TempFolder folder;
  std::ofstream(folder / "config.yaml") << "model: mlp\n";
  for (const char* words : {"validate x.yaml", "run x.yaml", "show-config x.yaml", "plan x.yaml",
                            "sweep x.yaml seed=1,2", "checkpoint ls runs", "top runs",
                            "predict x.yaml --checkpoint best --out y.csv"}) {
    const std::string text =
        output_of(fmt::format("mkdir -p {0}/d && cd {0}/d && rmdir ../d && {1} {2} 2>&1",
                              folder.path().string(), TRAINCTL_BINARY, words));
    CAPTURE(words, text);
    CHECK_THAT(text, Contains("the working directory has been deleted"));
    CHECK_THAT(text, !Contains("bug"));
  }
}

TEST_CASE("a verb that starts processes refuses a deleted working directory", "[smoke]") {
  const TempFolder folder;
  std::ofstream(folder / "config.yaml") << "model: mlp\n";
  for (const char* words : {"run {}", "run {} --run-dir /tmp/never", "eval {} --checkpoint /tmp/x",
                            "plan {}", "bench {}", "tune {}", "sweep {} seed=1,2", "lr-find {}",
                            "verify-resume {}", "predict {} --checkpoint /tmp/x --out /tmp/y.csv",
                            "checkpoint export /tmp/x --out /tmp/y.pt", "doctor --link"}) {
    const std::string command = fmt::format(fmt::runtime(words), (folder / "config.yaml").string());
    const std::string text = output_of(
        fmt::format("mkdir -p {0}/d && cd {0}/d && rmdir ../d && {1} {2} 2>&1; echo \"code $?\"",
                    folder.path().string(), TRAINCTL_BINARY, command));
    CAPTURE(command);
    CHECK(text ==
          "error: cannot start: the working directory has been deleted\n"
          "hint: change to a folder that exists, as in: cd ~\ncode 11\n");
  }
}

TEST_CASE("bash completes verbs, flags, keys and values", "[smoke]") {
  const TempFolder folder;
  std::ofstream(folder / "complete.bash")
      << "source <(" TRAINCTL_BINARY
         " completion bash)\n"
         "COMP_LINE=\"$1\" COMP_POINT=${#1} COMP_WORDS=($1) COMP_WORDBREAKS=' ='\n"
         "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_trainctl\necho \"${COMPREPLY[*]}\"\n";
  const auto complete = [&](const std::string& line) {
    return output_of("bash " + (folder / "complete.bash").string() + " '" + line + "' 2>&1");
  };
  CHECK_THAT(complete("trainctl va"), StartsWith("validate"));
  CHECK_THAT(complete("trainctl validate --js"), StartsWith("--json"));
  CHECK_THAT(complete("trainctl validate x.yaml optimizer.lr"), StartsWith("optimizer.lr="));
  CHECK_THAT(complete("trainctl validate x.yaml trainer.accelerator=c"), StartsWith("cpu"));
  CHECK_THAT(complete("trainctl validate x.yaml ++loader.shu"), Contains("++loader.shuffle="));
  CHECK_THAT(complete("trainctl che"), StartsWith("check"));
  CHECK_THAT(complete("trainctl check --js"), StartsWith("--json"));
  CHECK(complete("trainctl run --color a") == "auto always\n");
  CHECK(complete("trainctl run --progress pl") == "plain\n");
  CHECK(complete("trainctl run x.yaml --resume la") == "last\n");
  CHECK_THAT(complete("trainctl run --resume /us"), StartsWith("/usr"));
  CHECK_THAT(complete("trainctl sweep x.yaml --resume --jo"), StartsWith("--jobs"));
  CHECK(complete("trainctl eval x.yaml --checkpoint be") == "best\n");
  CHECK(complete("trainctl run x.yaml ~trainer.max_e") == "~trainer.max_epochs\n");
  CHECK_THAT(complete("trainctl explain optimizer.adam.l"), StartsWith("optimizer.adam.lr"));
  CHECK_THAT(complete("trainctl schema optimizer/s"), StartsWith("optimizer/sgd"));
  CHECK_THAT(complete("trainctl list opti"), StartsWith("optimizer"));
  CHECK_THAT(complete("trainctl data ha"), StartsWith("hash"));
  CHECK_THAT(complete("trainctl data hash --world"), StartsWith("--world-size"));
  CHECK_THAT(complete("trainctl data hash x.yaml loader.batch"), StartsWith("loader.batch_size="));
}

TEST_CASE("zsh and fish know the values of flags, and which may be paths", "[smoke]") {
  CHECK_THAT(run_program({"completion", "zsh"}).out,
             Contains("--resume) compadd -- auto last best; _files; return ;;") &&
                 Contains("--color) compadd -- auto always never; return ;;"));
  CHECK_THAT(run_program({"completion", "fish"}).out,
             Contains("__fish_seen_subcommand_from run' -l resume -r -a 'auto last best'") &&
                 Contains("__fish_seen_subcommand_from run' -l color -x -a 'auto always never'") &&
                 Contains("__fish_seen_subcommand_from sweep' -l resume\n"));
}

TEST_CASE("the surface grows only on purpose", "[smoke]") {
  const std::vector<std::string> shared{"--help",    "--json",  "--quiet",
                                        "--verbose", "--color", "--progress"};
  std::string surface = "# Verbs and flags. A change here is a change of what scripts rely on.\n";
  for (const std::string& flag : shared) surface += "* " + flag + "\n";
  for (const FlagOfVerb& one : flags()) {
    if (one.flag == "--help") surface += one.verb + "\n";
    if (std::ranges::find(shared, one.flag) == shared.end())
      surface += one.verb + " " + one.flag + "\n";
  }
  surface += "# Keys of the experiment file, and what they may be where that is a choice.\n";
  const std::string mark = "from validate check' -a '";
  for (const std::string& line : golden::lines_of(run_program({"completion", "fish"}).out)) {
    const std::size_t at = line.find(mark);
    if (at == std::string::npos) continue;
    for (const std::string& word :
         words_of(line.substr(at + mark.size(), line.size() - at - mark.size() - 1)))
      surface += word + "\n";
  }
  check_golden("surface.txt", surface);
}
