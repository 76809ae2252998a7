#pragma once

#include <string>
#include <vector>

namespace trainyard::program {

/// What was typed, as text: verbs turn it into values and say what is wrong with it. Empty means not given.
struct Arguments {
  std::string verb;
  std::vector<std::string> operands;

  // the model and the training
  std::string training, granularity, batch, precision;
  std::vector<std::string> bind;
  // the cluster, and what-if changes to it
  std::string cluster, memory, scale, sharing, costs, co_run;
  // the schedule
  std::string objective;
  std::string placer, placers, schedule, seed, repeats, coarsen;
  std::vector<std::string> parameters;
  // of a search
  std::string time, evaluations, threads;
  // a policy that is learned, or was
  std::string train_time, updates, policy;
  // several steps, and noise
  std::string steps, noise, samples;
  // of a family of networks
  std::string count;
  // outputs
  std::string output, trace, flows, report, csv, markdown;
  // explain
  std::vector<std::string> faster, larger;
  std::string top;
  bool place_again = false;
  // calibrate
  bool accept = false;
  // check, validate
  std::string model;
  // runs on hardware
  std::string backend, rounds, rank, modes, links;
  // every verb
  std::string color;
  bool json = false, quiet = false, no_progress = false;
};

}  // namespace trainyard::program
