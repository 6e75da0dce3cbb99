"""`stopwav loss`: which transducer loss to train with."""
