#pragma once

#include <array>
#include <string>
#include <string_view>

#include "arguments.hpp"
#include "console.hpp"

namespace trainyard::program {

// One function, one file per verb; each returns the exit code.
int run_import(const Arguments& arguments, Console& console);
int run_simulate(const Arguments& arguments, Console& console);
int run_place(const Arguments& arguments, Console& console);
int run_explain(const Arguments& arguments, Console& console);
int run_train(const Arguments& arguments, Console& console);
int run_export(const Arguments& arguments, Console& console);
int run_compare(const Arguments& arguments, Console& console);
int run_calibrate(const Arguments& arguments, Console& console);
int run_profile(const Arguments& arguments, Console& console);
int run_validate(const Arguments& arguments, Console& console);
int run_demo(const Arguments& arguments, Console& console);
int run_models(const Arguments& arguments, Console& console);
/// models family:NAME
int run_family(const std::string& family, const Arguments& arguments, Console& console);
int run_clusters(const Arguments& arguments, Console& console);
int run_placers(const Arguments& arguments, Console& console);
int run_check(const Arguments& arguments, Console& console);
int run_doctor(const Arguments& arguments, Console& console);
int run_completion(const Arguments& arguments, Console& console);

struct Verb {
  std::string_view name;
  int (*run)(const Arguments&, Console&);
};

inline constexpr std::array kVerbs{
    Verb{"import", run_import},
    Verb{"export", run_export},
    Verb{"simulate", run_simulate},
    Verb{"place", run_place},
    Verb{"compare", run_compare},
    Verb{"explain", run_explain},
    Verb{"train", run_train},
    Verb{"profile", run_profile},
    Verb{"calibrate", run_calibrate},
    Verb{"validate", run_validate},
    Verb{"demo", run_demo},
    Verb{"models", run_models},
    Verb{"clusters", run_clusters},
    Verb{"placers", run_placers},
    Verb{"check", run_check},
    Verb{"doctor", run_doctor},
    Verb{"completion", run_completion},
};

// Exit codes (README.md has the full table).
inline constexpr int kDone = 0, kAnswerIsNo = 1, kUsage = 2, kInput = 3, kMissing = 4, kInconclusive = 5,
                     kInternal = 70, kInterrupted = 130;

}  // namespace trainyard::program
