#include "study/bench/bench_plan.hpp"
#include "study/fake_run.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

/// A bench of one setting and one run. During the first `contended` runs, including the warm-ups,
/// other processes use half of the cores while the number of threads is chosen.
class ContendedBench {
 public:
  explicit ContendedBench(int contended) {
    const auto started = [](double taken) {
      return fake_run::one_epoch({.max_epochs = 1,
                                  .num_threads = 3,
                                  .num_threads_why = "probe",
                                  .num_threads_taken = taken});
    };
    const std::string starts = (folder_ / "starts").string();
    const study::RunRequest request = fake_run::request(
        folder_, fmt::format("echo >> {0}\nif [ $(wc -l < {0}) -le {1} ]; then\n{2}else\n{3}fi\n",
                             starts, contended, started(0.5), started(0)));
    found_ = study::run_bench({study::product(std::vector<study::Axis>()), {request}}, {},
                              {.repeats = 1, .clock = &steady_clock()},
                              [this](const std::string& line) { lines_.push_back(line); });
  }

  [[nodiscard]] const study::BenchRows& found() const { return found_; }
  [[nodiscard]] std::ptrdiff_t starts() const {
    std::ifstream file(folder_ / "starts");
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  }
  /// Returns the number of printed lines that contain the text.
  [[nodiscard]] std::ptrdiff_t lines_with(const std::string& text) const {
    return std::ranges::count_if(
        lines_, [&](const std::string& line) { return line.find(text) != std::string::npos; });
  }
  /// Returns the number of runs with three threads in their configuration.
  [[nodiscard]] int runs_with_three_threads() const {
    int runs = 0;
    for (const auto& run : fs::directory_iterator(folder_ / "runs/fake")) {
      if (run.is_symlink()) continue;
      const std::string config =
          read_file(run.path() / "config.resolved.yaml", 1 << 20, ReadFailure::resource);
      if (config.find("num_threads: 3") != std::string::npos) ++runs;
    }
    return runs;
  }

 private:
  TempFolder folder_;
  std::vector<std::string> lines_;
  study::BenchRows found_;
};

}  // namespace

TEST_CASE("run_bench: the warm-up on a quiet machine is not repeated") {
  const ContendedBench bench(0);
  CHECK(bench.starts() == 2);
  CHECK(bench.found().warm_up.threads == 3);
  CHECK(bench.found().warm_up.taken == 0);
  CHECK(bench.lines_with("other processes") == 0);
  CHECK(bench.runs_with_three_threads() == 1);
}

TEST_CASE("run_bench: a contended warm-up is repeated, and the choice of a quiet one counts") {
  const ContendedBench bench(1);
  CHECK(bench.starts() == 3);
  CHECK(bench.found().warm_up.taken == 0);
  CHECK(bench.lines_with("took 50 % of the cores, so the warm-up is repeated") == 1);
  CHECK(bench.lines_with("may be wrong") == 0);
}

TEST_CASE("run_bench: after three contended warm-ups the choice is used with a warning") {
  const ContendedBench bench(4);
  CHECK(bench.starts() == 4);
  CHECK(bench.found().warm_up.threads == 3);
  CHECK(bench.found().warm_up.taken == 0.5);
  CHECK(bench.lines_with("the warm-up is repeated") == 2);
  CHECK(bench.lines_with("took 50 % of the cores, so the number of threads may be wrong") == 1);
  REQUIRE(bench.found().rows.size() == 1);
  CHECK(bench.found().rows[0].trials.size() == 1);
  CHECK(bench.runs_with_three_threads() == 1);
}
