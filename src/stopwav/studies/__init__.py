"""The studies, one folder per question: settings in, run file out, results and documents from the run file."""
