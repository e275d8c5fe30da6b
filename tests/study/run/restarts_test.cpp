#include "study/run/restarts.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <utility>

using namespace trainctl;
using Decision = study::RestartPolicy::Decision;
using Step = std::optional<std::int64_t>;

TEST_CASE("RestartPolicy: only a failed process and a hang cause a restart") {
  for (const int code : {0, 1, 2, 3, 5, 6, 9, 10, 11, 75, 93, 130, 143}) {
    INFO(code);
    study::RestartPolicy policy(3);
    CHECK(policy.after(code, 100) == Decision::stop);
    CHECK(policy.made() == 0);
  }
  for (const int code : {7, 8}) {
    study::RestartPolicy policy(3);
    CHECK(policy.after(code, 100) == Decision::restart);
  }
}

TEST_CASE("RestartPolicy: the budget is exact even if every start makes progress") {
  for (const int most : {0, 1, 2, 7}) {
    study::RestartPolicy policy(most);
    int starts = 1;
    while (policy.after(7, 10 * starts) == Decision::restart) ++starts;
    CHECK(starts == most + 1);
    CHECK(policy.made() == most);
  }
}

TEST_CASE("RestartPolicy: three restarts without a newer checkpoint are the limit") {
  for (const Step step : {Step(), Step(938)}) {
    study::RestartPolicy policy(10);
    for (int restart = 1; restart <= 3; ++restart)
      CHECK(policy.after(7, step) == Decision::restart);
    CHECK(policy.after(8, step) == Decision::no_progress);
  }
}

TEST_CASE("RestartPolicy: a budget of two ends before three idle restarts") {
  study::RestartPolicy policy(2);
  CHECK(policy.after(7, {}) == Decision::restart);
  CHECK(policy.after(7, {}) == Decision::restart);
  CHECK(policy.after(7, {}) == Decision::stop);
}

TEST_CASE("RestartPolicy: a newer checkpoint resets the count, an older one does not") {
  study::RestartPolicy policy(10);
  for (const auto& [step, answer] :
       std::vector<std::pair<Step, Decision>>{{{}, Decision::restart},
                                              {{}, Decision::restart},
                                              {{}, Decision::restart},
                                              {10, Decision::restart},
                                              {10, Decision::restart},
                                              {5, Decision::restart},
                                              {10, Decision::no_progress}}) {
    CHECK(policy.after(7, step) == answer);
  }
}

TEST_CASE("RestartPolicy: the checkpoint that a run started from does not count as progress") {
  study::RestartPolicy policy(10, 500);
  for (int restart = 1; restart <= 3; ++restart) CHECK(policy.after(7, 500) == Decision::restart);
  CHECK(policy.after(7, 500) == Decision::no_progress);
}

TEST_CASE(
    "RestartPolicy: an attempt from step 0 is measured by its own steps, within the same budget") {
  study::RestartPolicy policy(3, 500);
  CHECK(policy.after(7, 500) == Decision::restart);
  policy.reset_progress();
  CHECK(policy.after(7, 10) == Decision::restart);
  CHECK(policy.after(7, 20) == Decision::restart);
  CHECK(policy.after(7, 30) == Decision::stop);
}
